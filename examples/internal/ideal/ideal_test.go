package ideal_test

import (
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/examples/internal/ideal"
)

func request(words ...string) openai.ChatCompletionRequest {
	r := openai.ChatCompletionRequest{MaxCompletionTokens: 4}
	for _, w := range words {
		r.Messages = append(r.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: strings.Repeat(w+" ", 40)})
	}
	return r
}

// The arithmetic is what an engine with room for everything reports.
func TestAgreesWithAnEngine(t *testing.T) {
	fleet := fleettest.New(1, fleettest.Config{TimeScale: 1000})
	defer fleet.Close()
	c, err := client.New(client.WithEndpoints(fleet.URLs()...))
	require.NoError(t, err)
	defer c.Close()
	var cache ideal.Cache
	prompt, cached := 0, 0
	for _, r := range []openai.ChatCompletionRequest{
		request("one"), request("one", "two"), request("one", "two", "three"),
		request("one", "two"), // wholly known: the last token is computed all the same
		request("other", "two"), request("one"),
	} {
		require.NoError(t, cache.Add(r))
		resp, err := c.CreateChatCompletion(t.Context(), r)
		require.NoError(t, err)
		prompt += resp.Usage.PromptTokens
		cached += resp.Usage.PromptTokensDetails.CachedTokens
		require.InDelta(t, float64(cached)/float64(prompt), cache.HitRate(), 1e-12)
	}
	require.Positive(t, cached)
	require.Positive(t, cache.Tokens())
	require.Less(t, cache.Tokens(), prompt)
}

func TestEmpty(t *testing.T) {
	var cache ideal.Cache
	require.Zero(t, cache.HitRate())
	require.Error(t, cache.Add(openai.ChatCompletionRequest{Messages: []openai.ChatCompletionMessage{{Role: "nobody"}}}))
	require.Zero(t, cache.Tokens())
}
