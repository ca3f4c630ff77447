package client_test

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
)

// An engine with data-parallel ranks is one URL with several caches: what the
// header says gets the request, and one health path speaks for all.
type ranked struct {
	url   string
	ranks *fleettest.Fleet

	mu    sync.Mutex
	asked map[string]int // by path, and by rank under /v1/chat
	gate  chan struct{}  // not nil: requests to generate wait for it
}

func newRanked(t *testing.T, ranks int) *ranked {
	r := &ranked{ranks: fleettest.New(ranks, fleettest.Config{Model: "sim", TimeScale: 100}), asked: map[string]int{}}
	t.Cleanup(r.ranks.Close)
	r.url = newPlainServer(t, r.ServeHTTP).URL
	return r
}

func (r *ranked) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name, rank := req.URL.Path, 0
	if strings.HasSuffix(name, "/completions") {
		name = req.Header.Get("X-data-parallel-rank")
		rank, _ = strconv.Atoi(name)
	}
	r.mu.Lock()
	r.asked[name]++
	gate := r.gate
	r.mu.Unlock()
	if gate != nil && name != req.URL.Path {
		<-gate
	}
	to, _ := url.Parse(strings.TrimSuffix(r.ranks.URL(rank), "/v1"))
	httputil.NewSingleHostReverseProxy(to).ServeHTTP(w, req)
}

func TestDataParallelRanks(t *testing.T) {
	const ranks = 3
	engines := []*ranked{newRanked(t, ranks), newRanked(t, ranks)}
	c, err := client.New(client.WithEndpoints(engines[0].url, engines[1].url+"/v1"), client.WithDataParallel(ranks),
		client.WithHealthChecks(time.Hour), client.WithModelChecks(time.Hour), client.WithMetrics(0))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Ready(t.Context()))
	ids := map[string]bool{}
	for _, e := range engines {
		for rank := range ranks {
			ids[fmt.Sprintf("%s#%d", e.url, rank)] = true
		}
	}
	stats := func() map[string]client.EndpointStats {
		all := map[string]client.EndpointStats{}
		for _, e := range c.Stats().Endpoints {
			all[e.ID] = e
		}
		return all
	}
	ask := func(i int, turns ...openai.ChatCompletionMessage) (openai.ChatCompletionMessage, string) {
		request := question(fmt.Sprintf("conversation %d: %s", i, strings.Repeat("tell me more. ", 100)))
		request.Model, request.MaxCompletionTokens = "sim", 4
		request.Messages = append(request.Messages, turns...)
		resp, err := c.CreateChatCompletion(t.Context(), request)
		require.NoError(t, err)
		return resp.Choices[0].Message, resp.Header().Get("X-Prefixwise-Endpoint")
	}

	// Homes depend on the ports, which are drawn anew: one of six ranks is without
	// any of 120 conversations in two runs of a billion.
	used := map[string]bool{}
	for i := range 120 {
		answer, home := ask(i)
		_, again := ask(i, answer, openai.ChatCompletionMessage{Role: "user", Content: "and then?"})
		require.Equal(t, home, again, "a conversation stays at its rank")
		used[home] = true
	}
	require.Equal(t, ids, used, "each rank is the home of some")
	require.Greater(t, c.Stats().HitRate(), .4, "the second turns find the first ones")
	for id, e := range stats() {
		require.Equal(t, "healthy", e.Health)
		require.Equal(t, []string{"sim"}, e.Models)
		at, rank, _ := strings.Cut(id, "#")
		for _, engine := range engines {
			if engine.url == at {
				require.EqualValues(t, e.Requests, engine.asked[rank], "the header says which rank")
			}
		}
	}
	for _, engine := range engines {
		require.Equal(t, 1, engine.asked["/health"], "ranks share their health")
		require.Equal(t, 1, engine.asked["/v1/models"])
		require.Zero(t, engine.asked[""], "no request without a rank")
	}

	gate := make(chan struct{})
	for _, engine := range engines {
		engine.mu.Lock()
		engine.gate = gate
		engine.mu.Unlock()
	}
	home := make(chan string)
	go func() { _, at := ask(7); home <- at }()
	var busy []string
	require.Eventually(t, func() bool {
		busy = nil
		for id, e := range stats() {
			for range e.InFlight {
				busy = append(busy, id)
			}
		}
		return len(busy) == 1
	}, 5*time.Second, time.Millisecond, "in flight at one rank, not at its siblings")
	close(gate)
	require.Equal(t, busy, []string{<-home})
	for _, e := range stats() {
		require.Zero(t, e.InFlight)
	}
}
