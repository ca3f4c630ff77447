package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/prefixwise/prefixwise/examples/internal/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// data returns the path of a published trace, or skips the test.
func data(t *testing.T, name string) string {
	if raceDetector {
		t.Skip("whole traces are not replayed under the race detector")
	}
	dir := os.Getenv("PREFIXWISE_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skip("no trace data: set PREFIXWISE_DATA")
	}
	return path
}

func replayed(t *testing.T, args ...string) []result {
	var out, errs bytes.Buffer
	require.Zero(t, run(context.Background(), append([]string{"-json", "-quiet"}, args...), &out, &errs), errs.String())
	var results []result
	for d := json.NewDecoder(&out); d.More(); {
		var r result
		require.NoError(t, d.Decode(&r))
		results = append(results, r)
	}
	return results
}

// The laboratory in which the placement rule was developed is another
// implementation of the engine, of the traces and of the policies. Its means
// over five placements of the conversation trace, 8 engines of a million tokens:
func TestAgreesWithLaboratory(t *testing.T) {
	path := data(t, "mooncake/conversation_trace.jsonl")
	for _, want := range []struct {
		policy, clients string
		hit, ttft       float64
	}{
		{"random", "1", .079, 4.594},
		{"least-outstanding", "1", .079, 2.893},
		{"least-outstanding", "16", .077, 3.549},
		{"fixed-prefix", "1", .265, 3.235},
		{"fixed-prefix", "16", .240, 3.186},
		// Its bound on the load is rounded down and package affinity's is
		// rounded up, which matters to one client: 15.5 % and 2.72 s there,
		// 18.3 % and 2.77 s rounded up.
		{"bounded-load:floor=4", "1", .183, 2.767},
		{"bounded-load:floor=4", "16", .268, 3.292},
	} {
		var hit, ttft float64
		results := replayed(t, "-trace", path, "-cache", "1000000", "-policies", want.policy, "-clients", want.clients, "-seeds", "2")
		for _, r := range results {
			hit += r.HitRate / float64(len(results))
			ttft += r.TTFTMean / float64(len(results))
		}
		t.Logf("%s, %s clients: %.4f, %.3f s", want.policy, want.clients, hit, ttft)
		require.InDelta(t, want.hit, hit, .02, "%s, %s clients", want.policy, want.clients)
		require.InEpsilon(t, want.ttft, ttft, .1, "%s, %s clients", want.policy, want.clients)
	}
}

// One placement of each row of the goals, with room for its luck: a change that
// costs more than that is no accident.
func TestDefaultMeetsItsGoals(t *testing.T) {
	conversation := data(t, "mooncake/conversation_trace.jsonl")
	synthetic := data(t, "mooncake/synthetic_trace.jsonl")
	coding := data(t, "agentic/coding_sessions.jsonl")
	for name, row := range map[string]struct {
		args      string
		hit, ttft float64
	}{
		"conversation, 1 client":   {"-trace " + conversation + " -cache 1000000 -clients 1", .24, 1.6},
		"conversation, 16 clients": {"-trace " + conversation + " -cache 1000000 -clients 16", .225, 2.3},
		"overload":                 {"-trace " + synthetic + " -cache 1000000 -rate 1.6 -clients 16", .44, 5.2},
		"coding, 16 clients":       {"-trace " + coding + " -cache 1200000 -speed 8 -clients 16", .90, .3},
		"many heads":               {"-trace gen:heads -cache 110000 -instances 7 -speed 3 -horizon 600s -clients 4", .92, .05},
	} {
		r := replayed(t, append(strings.Fields(row.args), "-policies", "affinity", "-seeds", "1")...)[0]
		require.GreaterOrEqual(t, r.HitRate, row.hit, name)
		require.LessOrEqual(t, r.TTFTMean, row.ttft, name)
	}
}

func TestSameArmSameResult(t *testing.T) {
	args := []string{"-trace", "gen:chat:users=20,chats=3", "-clients", "3", "-seeds", "1", "-policies", "affinity,random"}
	require.Equal(t, replayed(t, args...), replayed(t, args...))
}

// With names of its own, a fleet has one placement; without, each seed is another.
func TestNamesPlace(t *testing.T) {
	shares := func(more ...string) (all [][]float64) {
		for _, r := range replayed(t, append([]string{"-trace", "gen:chat:users=20,chats=3", "-clients", "1", "-seeds", "2", "-policies", "fixed-prefix:concurrency=1024"}, more...)...) {
			all = append(all, r.Shares)
		}
		return all
	}
	drawn := shares("-instances", "3")
	require.NotEqual(t, drawn[0], drawn[1])
	named := shares("-names", "a,b,c")
	require.Equal(t, named[0], named[1])
	require.Equal(t, drawn[0], shares("-names", "http://sim-1-0:8000,http://sim-1-1:8000,http://sim-1-2:8000")[1])
}

func TestEveryRequestIsAnswered(t *testing.T) {
	for _, r := range replayed(t, "-trace", "gen:heads:users=6,requests=20", "-clients", "2", "-seeds", "2", "-cache", "40000",
		"-scale-add", ".3", "-scale-del", ".6") {
		require.Equal(t, 120, r.Requests, r.Policy)
		require.GreaterOrEqual(t, r.ShareMax, r.ShareMin)
		require.Positive(t, r.TTFTMean)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{}, {"-trace", "x", "-policies", "best"}, {"-trace", "x", "-policies", "fixed-prefix:length=1"},
		{"-trace", "x", "-clients", "none"}, {"-trace", "x", "-rate", "0"}, {"-trace", "x", "more"},
		{"-trace", "x", "-names", "a,b,a"}, {"-trace", "x", "-names", "a,,b"}, {"-trace", "x", "-names", "a,b", "-instances", "3"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, program.Usage, run(context.Background(), args, &out, &errs), args)
		require.Contains(t, errs.String(), "replay:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, program.Failed, run(context.Background(), []string{"-trace", "gen:none"}, &out, &errs))
	require.Contains(t, errs.String(), "use heads, chat or documents")
}
