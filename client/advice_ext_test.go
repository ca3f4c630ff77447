package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
)

func TestAdviceSeesLiveTraffic(t *testing.T) {
	c := experimentClient(t, client.WithMetrics(time.Second))
	converse(t, c, 100)
	a := c.Stats().Advice()
	require.EqualValues(t, c.Stats().Calls, a.Calls)
	require.Equal(t, 100, a.Conversations)
	require.Equal(t, 4, a.Instances)
	require.Equal(t, 400_000, a.CacheTokens, "as the engines' metrics tell")
	require.NotEqual(t, client.TooLittleData, a.Verdict)
	// One client sends all there is, so caches and model see the same.
	require.InDelta(t, c.Stats().HitRate(), a.Shared, .12)
	require.Greater(t, a.PromptTokens, 100.)
}
