package fleettest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// Ports of instances. They lie below the ranges from which operating systems
// take the ports of outgoing connections (Linux from 32768, others from 49152):
// a killed instance must find its port free when it is restarted, and not
// taken by a connection to one of its neighbours.
const (
	firstPort = 20000
	lastPort  = 31999
	attempts  = 100
)

// A claim keeps the port of an instance from the fleets of other processes while
// the instance is dead: they would get the requests that are meant to fail. It is
// a listener at the next port, where nobody answers.
type claim struct{ net.Listener }

// listen opens a port of its own choice and claims it. The claim is nil when all
// ports that can be claimed are taken, as it seems.
func listen() (net.Listener, *claim, error) {
	for range attempts {
		l, c, err := listenAt(firstPort + 2*rand.IntN((lastPort-firstPort+1)/2))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, c, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	return l, nil, err
}

// listenAt claims an even port and opens it.
func listenAt(port int) (net.Listener, *claim, error) {
	next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
	if err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		next.Close()
		return nil, nil, err
	}
	return l, &claim{next}, nil
}
