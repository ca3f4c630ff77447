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

// listen opens addr, or a port of its own choice when addr is empty.
func listen(addr string) (net.Listener, error) {
	if addr != "" {
		return net.Listen("tcp", addr)
	}
	for range attempts {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort+1)))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return net.Listen("tcp", "127.0.0.1:0")
}
