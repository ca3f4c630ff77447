//go:build vllm

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
)

// fleet is the library's client over all engines.
func fleet(t *testing.T) (*client.Client, []endpoint) {
	all := engines(t)
	var urls []string
	for _, e := range all {
		urls = append(urls, e.url)
	}
	c, err := client.New(client.WithEndpoints(urls...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, all
}

// TestClientKeepsConversationsWhereTheirCacheIs: conversations one request at a
// time; from its second turn on, each finds what its instance has of it.
func TestClientKeepsConversationsWhereTheirCacheIs(t *testing.T) {
	c, all := fleet(t)
	require.Greater(t, len(all), 1, "two instances are needed")
	homes := map[string]bool{}
	for i := range 8 {
		messages := []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser,
			Content: fresh() + strings.Repeat("Some words about the matter at hand. ", 60)}}
		home, before := "", 0
		for turn := range 4 {
			resp, err := c.CreateChatCompletion(context.Background(), openai.ChatCompletionRequest{
				Model: all[0].model, Messages: messages, MaxTokens: 4, Temperature: 0.5})
			require.NoError(t, err)
			at := resp.Header().Get("X-Prefixwise-Endpoint")
			require.NotEmpty(t, at)
			homes[at] = true
			if turn == 0 {
				home = at
			} else {
				assert.Equal(t, home, at, "conversation %d, turn %d", i, turn)
				require.NotNil(t, resp.Usage.PromptTokensDetails)
				assert.GreaterOrEqual(t, resp.Usage.PromptTokensDetails.CachedTokens, before/all[0].block*all[0].block-all[0].block)
			}
			before = resp.Usage.PromptTokens
			messages = append(messages, resp.Choices[0].Message,
				openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: fmt.Sprintf("And the next thing, number %d?", turn)})
		}
	}
	assert.Len(t, homes, len(all), "eight conversations use every instance")
}

func TestClientStreams(t *testing.T) {
	c, all := fleet(t)
	for _, usage := range []bool{false, true} {
		req := openai.ChatCompletionRequest{Model: all[0].model, MaxTokens: 20, Stream: true,
			Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: fresh()}}}
		if usage {
			req.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
		}
		stream, err := c.CreateChatCompletionStream(context.Background(), req)
		require.NoError(t, err)
		finishes, usages := 0, 0
		for {
			chunk, err := stream.Recv()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			if chunk.Usage != nil {
				usages++
			}
			for _, choice := range chunk.Choices {
				if choice.FinishReason != "" {
					finishes++
				}
			}
		}
		require.NoError(t, stream.Close())
		assert.Equal(t, 1, finishes)
		if usage {
			assert.Equal(t, 1, usages)
		} else {
			assert.Zero(t, usages, "the usage chunk that the library asks for is its own")
		}
	}
	// A stream that ends before any text: the stop string comes at once.
	stream, err := c.CreateChatCompletionStream(context.Background(), openai.ChatCompletionRequest{Model: all[0].model, MaxTokens: 4, Stream: true,
		Stop: []string{" ", "a", "e", "t"}, Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: "hello"}}})
	require.NoError(t, err)
	for err == nil {
		_, err = stream.Recv()
	}
	assert.Equal(t, io.EOF, err)
	require.NoError(t, stream.Close())
	for _, e := range c.Stats().Endpoints {
		assert.Zero(t, e.InFlight)
	}
}

func TestClientErrors(t *testing.T) {
	c, all := fleet(t)
	ask := func(req openai.ChatCompletionRequest) error {
		if req.Messages == nil {
			req.Messages = []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: "hello"}}
		}
		_, err := c.CreateChatCompletion(context.Background(), req)
		return err
	}
	for _, tt := range []struct {
		name   string
		req    openai.ChatCompletionRequest
		status int
	}{
		{"model", openai.ChatCompletionRequest{Model: "nope"}, http.StatusNotFound},
		{"length", openai.ChatCompletionRequest{Model: all[0].model, Messages: []openai.ChatCompletionMessage{
			{Role: openai.ChatMessageRoleUser, Content: strings.Repeat("word ", 50_000)}}}, http.StatusBadRequest},
		{"choice without tools", openai.ChatCompletionRequest{Model: all[0].model, ToolChoice: "auto"}, http.StatusBadRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var api *openai.APIError
			require.ErrorAs(t, ask(tt.req), &api)
			assert.Equal(t, tt.status, api.HTTPStatusCode)
			assert.NotEmpty(t, api.Message)
		})
	}
	for _, e := range c.Stats().Endpoints {
		assert.Equal(t, "healthy", e.Health, "an engine's errors are not its failures")
		assert.Zero(t, e.InFlight)
	}
}
