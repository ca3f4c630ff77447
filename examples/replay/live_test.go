package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/examples/internal/program"
)

// byKind sorts results by kind and policy.
func byKind(results []result) map[string]result {
	all := map[string]result{}
	for _, r := range results {
		all[r.Kind+" "+r.Policy] = r
	}
	return all
}

// The simulated engine behind HTTP and the simulation in virtual time get the
// same traffic, one through the client, the other through the router alone.
func TestMeasuresRealEndpoints(t *testing.T) {
	fleet := fleettest.New(3, fleettest.Config{CacheTokens: 200_000, TimeScale: 20, BlockTokens: 32})
	defer fleet.Close()
	got := byKind(replayed(t, "-endpoints", strings.Join(fleet.URLs(), ","), "-trace", "gen:chat:users=12,chats=3,turns=6,question=300,output=20,think=.5",
		"-speed", "20", "-rate", "20", "-policies", "random,affinity,fixed-prefix:concurrency=1024", "-clients", "2"))
	require.Len(t, got, 6)
	for _, policy := range []string{"random", "affinity"} {
		m, p := got["measured "+policy], got["predicted "+policy]
		require.Equal(t, p.Requests, m.Requests, policy)
		require.Zero(t, m.Live.Failed, m.Live.FirstError)
		require.Equal(t, 3, m.Live.InstancesCounted)
		require.InDelta(t, *m.Live.ReportedHitRate, m.HitRate, .01, policy)
		t.Logf("%s: measured %.3f, predicted %.3f", policy, m.HitRate, p.HitRate)
		require.InDelta(t, p.HitRate, m.HitRate, .08, policy)
		require.InEpsilon(t, p.PromptTokens, m.PromptTokens, .05, "prompts are as long as the trace says")
		require.Positive(t, m.TTFT50)
		require.InDelta(t, 1, m.Shares[0]+m.Shares[1]+m.Shares[2], 1e-9)
	}
	require.Greater(t, got["measured affinity"].HitRate, got["measured random"].HitRate)
	// Where only hashes decide, the prediction sends every request where it went.
	key := "fixed-prefix:concurrency=1024"
	require.Equal(t, got["measured "+key].Shares, got["predicted "+key].Shares)
	require.NotEqual(t, got["measured "+key].Shares, got["measured random"].Shares)
}

func TestSurvivesADyingEndpoint(t *testing.T) {
	fleet := fleettest.New(3, fleettest.Config{TimeScale: 20})
	defer fleet.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // when it has begun
		for ctx.Err() == nil && fleettest.Total(fleet.Stats()).Requests < 40 {
			runtime.Gosched()
		}
		fleet.Kill(1)
	}()
	var out, errs bytes.Buffer
	require.Zero(t, run(ctx, []string{"-endpoints", strings.Join(fleet.URLs(), ","), "-trace", "gen:heads:prefixes=6,length=3000,users=12,requests=15,output=20",
		"-speed", "20", "-rate", "20", "-policies", "affinity", "-json", "-quiet"}, &out, &errs), errs.String())
	var m result
	require.NoError(t, json.NewDecoder(&out).Decode(&m))
	// What the dying instance had begun to answer cannot be sent again; it is
	// counted, and nothing else is lost.
	require.Equal(t, 180, m.Requests+m.Live.Failed)
	require.LessOrEqual(t, m.Live.Failed, 12, m.Live.FirstError)
	require.False(t, fleet.Stats()[1].Alive)
	require.Less(t, m.Shares[1], m.Shares[0])
}

// A log has the requests themselves, and a recording only their hashes: both can
// be sent, and both find in the caches what they share.
func TestMeasuresLogsAndRecordings(t *testing.T) {
	fleet := fleettest.New(2, fleettest.Config{TimeScale: 50, OutputTokens: 20})
	defer fleet.Close()
	dir := t.TempDir()
	log, recording := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "recording.jsonl")
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "{\"timestamp\":%g,\"body\":%s}\n", 1764000000+float64(i)/50, strings.ReplaceAll(body(i%5), "question", fmt.Sprint("case", i/5)))
	}
	require.NoError(t, os.WriteFile(log, []byte(b.String()), 0o600))
	var out, errs bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-trace", log, "-anonymize", recording}, &out, &errs), errs.String())
	for _, file := range []string{log, recording} {
		got := byKind(replayed(t, "-endpoints", strings.Join(fleet.URLs(), ","), "-trace", file, "-policies", "affinity", "-apart", "reset", "-output", "5", "-speed", "50"))
		m, p := got["measured affinity"], got["predicted affinity"]
		require.Equal(t, 60, m.Requests, m.Live.FirstError)
		require.Greater(t, m.HitRate, .5)
		require.InDelta(t, p.HitRate, m.HitRate, .08)
		require.InEpsilon(t, p.PromptTokens, m.PromptTokens, .1)
	}
}

// What was measured before an interrupt is shown.
func TestInterruptedMeasurement(t *testing.T) {
	fleet := fleettest.New(2, fleettest.Config{TimeScale: 50})
	defer fleet.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	say := writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "affinity, ") { // the second arm begins
			cancel()
		}
		return len(p), nil
	})
	var out bytes.Buffer
	require.Equal(t, program.Interrupted, run(ctx, []string{"-endpoints", strings.Join(fleet.URLs(), ","), "-trace", "gen:documents:documents=4,length=500,arrivals=100",
		"-policies", "random,affinity", "-progress"}, &out, say))
	require.Contains(t, out.String(), "\nrandom ")
	require.NotContains(t, out.String(), "\naffinity ")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestEndpointsThatCannotBeMeasured(t *testing.T) {
	fleet := fleettest.New(1, fleettest.Config{})
	defer fleet.Close()
	dead := fleettest.New(1, fleettest.Config{})
	url := dead.URL(0)
	dead.Close()
	for want, args := range map[string][]string{
		"connection refused":                    {"-endpoints", url},
		`does not serve "other"; it serves`:     {"-endpoints", fleet.URL(0), "-model", "other"},
		"the client has no option for floor":    {"-endpoints", fleet.URL(0), "-policies", "bounded-load:floor=4"},
		"the same":                              {"-endpoints", fleet.URL(0) + "," + fleet.URL(0)},
		"-instances is for simulations":         {"-endpoints", fleet.URL(0), "-instances", "3"},
		"-apart is \"none\"; use salt or reset": {"-endpoints", fleet.URL(0), "-apart", "none"},
	} {
		var out, errs bytes.Buffer
		require.NotZero(t, run(t.Context(), append([]string{"-trace", "gen:documents"}, args...), &out, &errs))
		require.Contains(t, errs.String(), want)
	}
}

// What an engine says of a request may quote it.
func TestRefusalsDoNotQuote(t *testing.T) {
	answer := []byte(`{"error":{"message":"bad input: my secret","type":"BadRequestError","param":"messages","code":400}}`)
	require.EqualError(t, refusal("400 Bad Request", answer, true), "400 Bad Request: BadRequestError messages")
	require.EqualError(t, refusal("400 Bad Request", answer, false), "400 Bad Request: BadRequestError messages bad input: my secret")
	require.EqualError(t, refusal("502 Bad Gateway", []byte("<html>"), true), "502 Bad Gateway")
}
