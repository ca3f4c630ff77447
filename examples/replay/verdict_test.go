package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unrelated is a trace of prompts that have nothing in common.
func unrelated(t *testing.T) string {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "{\"timestamp\":%d,\"input_length\":1100,\"output_length\":20,\"hash_ids\":[%d,%d]}\n", 300*i, 2*i+1, 2*i+2)
	}
	file := filepath.Join(t.TempDir(), "unrelated.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	return file
}

func TestVerdict(t *testing.T) {
	for name, tt := range map[string]struct{ args, want string }{
		"pays":             {"-trace gen:chat:users=30,chats=3 -instances 4 -clients 2", "Prefix routing pays here: affinity hits"},
		"one instance":     {"-trace gen:chat:users=5,chats=2 -instances 1", "does not pay here: there is one instance"},
		"nothing shared":   {"-trace " + unrelated(t) + " -instances 4", "does not pay here: the prompts have next to nothing in common (an infinite cache would hit 0.0 %)"},
		"enough memory":    {"-trace gen:heads:prefixes=2,length=1000,users=2,requests=300 -instances 2", "does not pay here: wherever a request goes, its prefix is there already"},
		"nothing compared": {"-trace gen:chat:users=5,chats=2 -policies affinity", "No verdict: it takes a policy with prefixes and one without"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := append([]string{"-seeds", "2", "-clients", "1", "-policies", "random,least-outstanding,affinity"}, strings.Fields(tt.args)...)
			require.Zero(t, run(t.Context(), args, &out, &errs), errs.String())
			require.Contains(t, out.String(), tt.want)
			require.Empty(t, errs.String(), "no progress where nobody looks")
		})
	}
}

func TestSweep(t *testing.T) {
	var out, errs bytes.Buffer
	args := strings.Fields("-trace gen:documents:documents=12,length=3000,questions=6 -sweep -policies random,fixed-prefix,affinity -clients 2 -seeds 2 -instances 3 -cache 20000 -progress")
	require.Zero(t, run(t.Context(), args, &out, &errs), errs.String())
	for length := 1024; length <= 65536; length *= 2 {
		require.Contains(t, out.String(), fmt.Sprintf("fixed-prefix:length=%d ", length))
	}
	require.NotContains(t, out.String(), "fixed-prefix  ")
	require.Regexp(t, `Of the lengths for fixed-prefix, (1024|2048|4096|8192) is best`, out.String(), "beyond 12,000 characters the questions are part of the prefix")
	require.Contains(t, errs.String(), "fixed-prefix:length=1024, clients: 2, placement 2 of 2")
}

// Two ranks of an instance are two caches.
func TestRanks(t *testing.T) {
	args := []string{"-trace", "gen:chat:users=20,chats=2", "-clients", "1", "-seeds", "1", "-policies", "random"}
	two := replayed(t, append(args, "-instances", "2")...)[0]
	four := replayed(t, append(args, "-instances", "2", "-ranks", "2")...)[0]
	require.Len(t, two.Shares, 2)
	require.Len(t, four.Shares, 4)
	require.Less(t, four.HitRate, two.HitRate-.1, "random finds less in four caches than in two")
}

func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	var out, errs bytes.Buffer
	args := strings.Fields("-trace gen:chat:users=20,chats=2 -policies random,affinity -clients 1,2 -seeds 2 -instances 3 -scale-add .3 -json -html " + file)
	require.Zero(t, run(t.Context(), args, &out, &errs), errs.String())
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, want := range []string{"Prefix routing pays here", "affinity, clients: 2", "an engine was added", "go run ./examples/replay -trace gen:chat:users=20,chats=2", "-scale-add", "4 instances"} {
		require.Contains(t, string(html), want)
	}
	require.Equal(t, 8, strings.Count(out.String(), "\n"), "one line for each arm")
}
