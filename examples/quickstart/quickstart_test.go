package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/examples/internal/ideal"
	"github.com/prefixwise/prefixwise/examples/internal/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is the standard mix with fewer and shorter threads, in a second.
var small = mix{
	chats: 8, chatTurns: 6, chatWords: 60,
	agents: 6, agentSteps: 6, logLines: 12,
	readers: 3, desks: 3, questions: 6, documentWords: 1200,
	span: time.Second, instances: 4, cacheTokens: 20_000, speed: 50,
}

func TestAffinityBeatsRandom(t *testing.T) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	var out, progress bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-json"}, small, &out, &progress), progress.String())
	require.Equal(t, 2, strings.Count(progress.String(), "\n"), "one line for each policy: %s", progress.String())

	lines := json.NewDecoder(&out)
	var random, affinity map[string]any
	require.NoError(t, lines.Decode(&random))
	require.NoError(t, lines.Decode(&affinity))
	require.ErrorIs(t, lines.Decode(&random), io.EOF)
	require.Equal(t, "random", random["policy"])
	require.Equal(t, "affinity", affinity["policy"])
	for _, r := range []map[string]any{random, affinity} {
		require.EqualValues(t, small.requests(), r["requests"])
		require.Zero(t, r["errors"])
		for _, field := range []string{"hit_rate", "ttft_p50", "ttft_p90", "share_min", "share_max", "overflow_rate", "infinite_cache_hit_rate"} {
			require.IsType(t, 0.0, r[field], field)
		}
		require.Greater(t, r["ttft_p50"], 0.0)
		require.LessOrEqual(t, r["ttft_p50"], r["ttft_p90"])
		require.LessOrEqual(t, r["share_min"], 0.25)
		require.GreaterOrEqual(t, r["share_max"], 0.25)
		require.Less(t, r["hit_rate"], r["infinite_cache_hit_rate"], "nothing beats a cache without bounds")
	}
	require.Equal(t, random["infinite_cache_hit_rate"], affinity["infinite_cache_hit_rate"], "both had the same traffic")
	require.Zero(t, random["overflow_rate"])
	require.Greater(t, affinity["hit_rate"], random["hit_rate"].(float64)+0.1)
}

func TestTable(t *testing.T) {
	hit := func(r float64) *float64 { return &r }
	results := []result{
		{Policy: "random", Requests: 10, HitRate: hit(.2), TTFTP50: .2, TTFTP90: 2, InfiniteRate: .9, shares: []float64{.5, .5}},
		{Policy: "affinity", Requests: 10, Errors: 1, HitRate: hit(.7), TTFTP50: .02, TTFTP90: .5, OverflowRate: .1, InfiniteRate: .9, shares: []float64{.4, .6}},
	}
	table := func(s settings) string {
		var b strings.Builder
		require.NoError(t, writeTable(&b, s, standard, results))
		return b.String()
	}
	require.Contains(t, table(settings{}), "SIMULATED")
	require.Contains(t, table(settings{}), "random     10         0        20.0 %     200.0 ms   2.00 s     50.0 50.0 %          0.0 %\n")
	require.Contains(t, table(settings{}), "affinity   10         1        70.0 %     20.0 ms    500.0 ms   40.0 60.0 %          10.0 %\n")
	require.Contains(t, table(settings{}), "3.5 times the hit rate of random routing, and the median first token in 10 % of the time")
	require.NotContains(t, table(settings{endpoints: "http://a:1"}), "SIMULATED")
	results[1].HitRate = nil
	require.Contains(t, table(settings{endpoints: "http://a:1"}), "--enable-prompt-tokens-details")
}

func TestWrongArguments(t *testing.T) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	for name, tt := range map[string]struct {
		args []string
		say  string
	}{
		"unknown flag":  {[]string{"-policy", "x"}, "not defined: -policy"},
		"argument":      {[]string{"http://a:8000"}, "given with -endpoints"},
		"bad endpoints": {[]string{"-endpoints", "a:8000"}, "http://a:8000"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, say bytes.Buffer
			require.Equal(t, program.Usage, run(t.Context(), tt.args, small, &out, &say))
			require.Contains(t, say.String(), tt.say)
			require.Empty(t, out.String())
		})
	}
	var out, say bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-h"}, small, &out, &say))
	require.Contains(t, say.String(), "30 % tool-calling agents")
	say.Reset()
	require.Equal(t, program.Failed, run(t.Context(), []string{"-record", filepath.Join(t.TempDir(), "none", "x")}, small, &out, &say))
	require.Contains(t, say.String(), "x-random.jsonl: no such file")
	require.NotContains(t, say.String(), "requests in", "it is found out before any are sent")
	for _, on := range []string{"1", "true"} {
		t.Setenv("PREFIXWISE_DISABLED", on)
		say.Reset()
		require.Equal(t, program.Failed, run(t.Context(), nil, small, &out, &say))
		require.Contains(t, say.String(), "PREFIXWISE_DISABLED")
	}
}

// Requests that fail are counted, and the exit status says so.
func TestFailuresAreCounted(t *testing.T) {
	fleet := fleettest.New(2, fleettest.Config{TimeScale: 50})
	defer fleet.Close()
	for i := range fleet.Len() {
		fleet.SetFault(i, fleettest.Fault{Status: 400})
	}
	t.Setenv("PREFIXWISE_ENDPOINTS", strings.Join(fleet.URLs(), ","))
	m := small
	m.span = 100 * time.Millisecond
	var out, say bytes.Buffer
	require.Equal(t, program.Failed, run(t.Context(), []string{"-json"}, m, &out, &say))
	var r struct {
		Requests, Errors int
		HitRate          *float64 `json:"hit_rate"`
	}
	require.NoError(t, json.NewDecoder(&out).Decode(&r))
	// A thread ends with its first failure.
	require.Equal(t, m.chats+m.agents+m.readers+m.desks, r.Errors)
	require.Equal(t, r.Requests, r.Errors)
	require.Nil(t, r.HitRate)
	require.Contains(t, say.String(), "requests failed, the first with: ")
}

func TestInterrupt(t *testing.T) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	ctx, cancel := context.WithCancel(t.Context())
	m := small
	m.span = time.Hour
	var out bytes.Buffer
	say := writerFunc(func(p []byte) (int, error) { // the first sign of life is the moment
		cancel()
		return len(p), nil
	})
	require.Equal(t, program.Interrupted, run(ctx, nil, m, &out, say))
	require.Empty(t, out.String())
}

func TestPage(t *testing.T) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	ctx, cancel := context.WithCancel(t.Context())
	m := small
	m.span = time.Hour
	address := make(chan string, 1)
	say := writerFunc(func(p []byte) (int, error) {
		if _, url, found := strings.Cut(string(p), "http://"); found {
			address <- "http://" + strings.TrimSpace(url)
		}
		return len(p), nil
	})
	status := make(chan int)
	go func() { status <- run(ctx, []string{"-debug", "127.0.0.1:0"}, m, io.Discard, say) }()
	url := <-address
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	require.Eventually(t, func() bool {
		resp, err := browser.Get(url)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode == http.StatusOK && strings.Contains(string(text), "4 endpoints, strategy <code>random</code>")
	}, 10*time.Second, 10*time.Millisecond)
	cancel()
	require.Equal(t, program.Interrupted, <-status)
	_, err := browser.Get(url)
	require.Error(t, err, "it ends with the program")

	var out bytes.Buffer
	require.Equal(t, program.Failed, run(t.Context(), []string{"-debug", "nowhere.invalid:x"}, small, io.Discard, &out))
	require.Contains(t, out.String(), "the page cannot be served")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// What the package comment says of the traffic.
func TestTheStandardMixIsAsDocumented(t *testing.T) {
	all, again := standard.threads(), standard.threads()
	require.Equal(t, all, again, "the same at every call")
	require.Len(t, all, 114)
	require.Equal(t, 1200, standard.requests())
	share := map[kind]float64{}
	var endless ideal.Cache
	for _, thread := range all {
		share[thread.kind] += float64(len(thread.turns)) / 1200
		messages := thread.head
		for i, turn := range thread.turns {
			require.True(t, i == 0 || turn.due > thread.turns[i-1].due)
			require.Less(t, turn.due, standard.span)
			messages = append(messages[:len(messages):len(messages)], turn.add...)
			if i == len(thread.turns)-1 || !thread.remembers() { // the last prompt holds those before it
				require.NoError(t, endless.Add(openai.ChatCompletionRequest{Messages: messages, Tools: thread.tools}))
			}
			if thread.remembers() {
				messages = append(messages, openai.ChatCompletionMessage{Role: "assistant", Content: strings.Repeat("word ", turn.limit), ToolCalls: turn.calls})
			} else {
				messages = thread.head
			}
		}
	}
	require.InDelta(t, .4, share[chat], 1e-9)
	require.InDelta(t, .3, share[agent], 1e-9)
	require.InDelta(t, .15, share[reader], 1e-9)
	require.InDelta(t, .15, share[desk], 1e-9)
	require.InEpsilon(t, float64(endless.Tokens())/4, standard.cacheTokens, .1, "a quarter of the working set")
}

func TestWordsAndLines(t *testing.T) {
	text := newAuthor(chat, 1).words(200)
	require.Len(t, strings.Fields(text), 200)
	require.NotEqual(t, text, newAuthor(chat, 2).words(200))
	require.NotEqual(t, text, newAuthor(agent, 1).words(200))
	require.Equal(t, 7, strings.Count(newAuthor(agent, 1).logLines(7), "\n"))
}
