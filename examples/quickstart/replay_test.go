package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// examples/replay simulates in virtual time what this program sends over HTTP in
// real time: the router without the client, and the engine's model without its
// server. On the same requests the two must have the same hit rate.
func TestReplayAgrees(t *testing.T) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	file := filepath.Join(t.TempDir(), "requests")
	// Where hashes put things is chance, so there are several runs of a larger mix.
	m := small
	m.chats, m.agents, m.readers, m.desks, m.cacheTokens, m.span = 3*m.chats, 3*m.agents, 3*m.readers, 3*m.desks, 3*m.cacheTokens, 3*time.Second
	var out, say bytes.Buffer
	for range 2 {
		require.Zero(t, run(t.Context(), []string{"-json", "-record", file}, m, &out, &say), say.String())
	}
	overHTTP := hitRates(t, &out)
	for _, policy := range []string{"random", "affinity"} {
		replay := exec.CommandContext(t.Context(), "go", "run", "../replay", "-trace", file+"-"+policy+".jsonl", "-policies", policy,
			"-json", "-clients", "1", "-seeds", "5", "-instances", fmt.Sprint(m.instances), "-cache", fmt.Sprint(m.cacheTokens), "-speed", fmt.Sprint(m.speed))
		replay.Stdout, replay.Stderr = &out, &say
		require.NoError(t, replay.Run(), say.String())
		simulated := hitRates(t, &out)
		t.Logf("%s: %.3f over HTTP, %.3f simulated", policy, overHTTP[policy], simulated[policy])
		// The whole mix is within 3 points in the means of several runs (see the
		// replay's README). Two runs of a small one by chance alone differ by 2, and
		// what prompts share behind their last common boundary, which only the
		// engine counts, is more of a short prompt.
		require.InDelta(t, overHTTP[policy], simulated[policy], .06, policy)
	}
}

// hitRates returns the mean of each policy.
func hitRates(t *testing.T, lines *bytes.Buffer) map[string]float64 {
	sum, n := map[string]float64{}, map[string]float64{}
	for d := json.NewDecoder(lines); d.More(); {
		var r struct {
			Policy  string  `json:"policy"`
			HitRate float64 `json:"hit_rate"`
		}
		require.NoError(t, d.Decode(&r))
		sum[r.Policy] += r.HitRate
		n[r.Policy]++
	}
	for policy := range sum {
		sum[policy] /= n[policy]
	}
	return sum
}
