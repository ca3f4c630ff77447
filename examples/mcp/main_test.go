package main

import (
	"strings"
	"sync"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/examples/internal/trial"
	"github.com/prefixwise/prefixwise/middleware"
)

func names(tools []openai.Tool) (all []string) {
	for _, t := range tools {
		all = append(all, t.Function.Name)
	}
	return all
}

// A server lists the same tools in an order of its own, and keeps to it.
func TestListsDiffer(t *testing.T) {
	orders := map[string]bool{}
	for range 4 {
		server, err := connect(t.Context())
		require.NoError(t, err)
		first, err := list(t.Context(), server)
		require.NoError(t, err)
		again, err := list(t.Context(), server)
		require.NoError(t, err)
		require.NoError(t, server.Close())
		require.Equal(t, first, again)
		require.ElementsMatch(t, names(inOrder(openai.ChatCompletionRequest{Tools: first}).Tools), names(first))
		require.Len(t, first, 12)
		orders[strings.Join(names(first), " ")] = true
	}
	require.Greater(t, len(orders), 1)
}

func TestTools(t *testing.T) {
	server, err := connect(t.Context())
	require.NoError(t, err)
	defer server.Close()
	found, err := use(t.Context(), server, openai.FunctionCall{Name: "locate_object", Arguments: `{"inventory":1234}`})
	require.NoError(t, err)
	require.Contains(t, found, "inventory")
	_, err = use(t.Context(), server, openai.FunctionCall{Name: "nothing", Arguments: `{}`})
	require.Error(t, err)
}

// measure runs all sessions, and checks that each request was understood and
// routed, and that half were streamed.
func measure(t *testing.T, options ...client.Option) trial.Result {
	t.Helper()
	var mu sync.Mutex
	requests, streamed := 0, 0
	options = append(options, client.WithObserver(&client.Trace{Done: func(d middleware.Done) {
		mu.Lock()
		defer mu.Unlock()
		if d.API == canon.Unknown { // the list of models
			return
		}
		requests++
		if d.Stream {
			streamed++
		}
		if d.Err != nil || d.Model == "" || d.Strategy != string(client.Affinity) || d.CachedTokens < 0 {
			t.Errorf("a request went wrong: %+v", d)
		}
	}}))
	result, err := trial.Run(t.Context(), t.Name(), "", all, options...)
	require.NoError(t, err)
	t.Log(result)
	require.Equal(t, sessions*(calling+1), requests)
	require.Equal(t, requests, result.Requests)
	require.Equal(t, requests/2, streamed)
	for _, e := range result.Stats.Endpoints {
		require.Zero(t, e.InFlight)
	}
	return result
}

func TestCanonicalizationPays(t *testing.T) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	listed := measure(t, client.WithCanonicalization(canon.Wire))
	result := measure(t)
	require.NoError(t, result.Check())
	require.Greater(t, result.HitRate, listed.HitRate+.05)
}

func TestRun(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), "", &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], "mcp, tools as listed")
	require.Contains(t, lines[1], "infinite cache")
}
