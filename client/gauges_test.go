package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/discovery"
)

// A reading that arrives when its endpoint has left must not stay for good.
func TestLateGaugesAreForgotten(t *testing.T) {
	c, err := New(WithEndpoints("http://127.0.0.1:1"), WithHealthChecks(0), WithModelChecks(0), WithMetrics(0))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Ready(t.Context()))
	members := *c.fleet.members.Load()
	c.fleet.observe(members[0].ID, discovery.Metrics{CacheTokens: 100})
	c.fleet.observe("http://127.0.0.1:2", discovery.Metrics{CacheTokens: 300})
	require.Equal(t, 100, c.fleet.cacheTokens())
	_, known := c.fleet.seen("http://127.0.0.1:2")
	require.False(t, known)

	c.fleet.set(nil)
	c.fleet.observe(members[0].ID, discovery.Metrics{CacheTokens: 100})
	require.Zero(t, c.fleet.cacheTokens())
}
