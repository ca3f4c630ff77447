package fleettest

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// While an instance is dead its port is its own; when the fleet is closed, it is
// anybody's.
func TestPortOfADeadInstanceIsKept(t *testing.T) {
	fleet := New(1, Config{})
	defer fleet.Close()
	addr, err := net.ResolveTCPAddr("tcp", fleet.instances[0].addr)
	require.NoError(t, err)
	fleet.Kill(0)
	_, _, err = listenAt(addr.Port)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NoError(t, fleet.Restart(0))
	fleet.Close()
	l, c, err := listenAt(addr.Port)
	require.NoError(t, err)
	l.Close()
	c.Close()
}
