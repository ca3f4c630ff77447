package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
)

func TestAdviceSeesLiveTraffic(t *testing.T) {
	// Of these engines' gauges, which Affinity places by, all that is wanted is how
	// large caches are: with them it leaves homes as chance has it.
	c := experimentClient(t, client.WithMetrics(time.Second), client.WithStrategy(client.BoundedLoad))
	converse(t, c, 100)
	told := func() bool { return c.Stats().Advice().CacheTokens == 400_000 }
	require.Eventually(t, told, 10*time.Second, 10*time.Millisecond, "as the engines' metrics tell, which may be read after all is answered")
	a := c.Stats().Advice()
	require.EqualValues(t, c.Stats().Calls, a.Calls)
	require.Equal(t, 100, a.Conversations)
	require.Equal(t, 4, a.Instances)
	require.NotEqual(t, client.TooLittleData, a.Verdict)
	// One client sends all there is, so caches and model see the same.
	require.InDelta(t, c.Stats().HitRate(), a.Shared, .12)
	require.Greater(t, a.PromptTokens, 100.)
}
