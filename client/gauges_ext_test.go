package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/middleware"
)

// TestGaugesReachTheRouter: what the engines tell at /metrics is in Stats, with
// their memory, and asking for it never shows the key.
func TestGaugesReachTheRouter(t *testing.T) {
	fleet := fleettest.New(2, fleettest.Config{CacheTokens: 4096, APIKey: "secret"})
	defer fleet.Close()
	c, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithAPIKey("secret"), client.WithMetrics(5*time.Millisecond))
	require.NoError(t, err)
	defer c.Close()
	told := func() bool {
		n := 0
		for _, e := range c.Stats().Endpoints {
			if e.Gauges {
				assert.Equal(t, 4096, e.CacheTokens)
				n++
			}
		}
		return n == 2
	}
	require.Eventually(t, told, 10*time.Second, 5*time.Millisecond)

	off, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithMetrics(0))
	require.NoError(t, err)
	defer off.Close()
	for _, e := range off.Stats().Endpoints {
		assert.False(t, e.Gauges)
	}
}

// TestPlacementIsCarried: a conversation that another process has begun goes on
// where its last response came from, wherever hashing would send it.
func TestPlacementIsCarried(t *testing.T) {
	fleet := fleettest.New(4, fleettest.Config{TimeScale: 100})
	defer fleet.Close()
	anywhere, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithStrategy(client.RoundRobin), client.WithMetrics(0))
	require.NoError(t, err)
	defer anywhere.Close()
	c, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithMetrics(0))
	require.NoError(t, err)
	defer c.Close()

	moved := 0
	for i := range 20 {
		req := openai.ChatCompletionRequest{Model: "sim-70b", MaxCompletionTokens: 4, Messages: []openai.ChatCompletionMessage{
			{Role: "user", Content: fmt.Sprintf("conversation %d %0800d", i, i)},
		}}
		first, err := anywhere.CreateChatCompletion(t.Context(), req)
		require.NoError(t, err)
		token := first.Header().Get(middleware.HeaderPlacement)
		require.NotEmpty(t, token)
		req.Messages = append(req.Messages, first.Choices[0].Message, openai.ChatCompletionMessage{Role: "user", Content: "go on"})

		var home string
		ctx := client.WithTrace(client.WithPlacement(t.Context(), token), &client.Trace{Picked: func(p middleware.Picked) { home = p.Home }})
		second, err := c.CreateChatCompletion(ctx, req)
		require.NoError(t, err)
		assert.Equal(t, first.Header().Get(middleware.HeaderEndpoint), second.Header().Get(middleware.HeaderEndpoint))
		assert.Equal(t, token, second.Header().Get(middleware.HeaderPlacement))
		if home != second.Header().Get(middleware.HeaderEndpoint) {
			moved++
		}
	}
	assert.Greater(t, moved, 5, "hashing alone would have sent many elsewhere")

	// A token that stands for nothing is no error.
	resp, err := c.CreateChatCompletion(client.WithPlacement(t.Context(), "p1.nonsense"), openai.ChatCompletionRequest{
		Model: "sim-70b", MaxCompletionTokens: 1, Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "hi"}}})
	require.NoError(t, err)
	assert.NotEmpty(t, resp.Choices)
}
