package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
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
	// Instances have the same names in both, so hashes put things in the same
	// places. The engines are slow enough that what HTTP takes counts for little
	// beside prefill, which the placement weighs.
	m := small
	m.chats, m.agents, m.readers, m.desks, m.cacheTokens = 3*m.chats, 3*m.agents, 3*m.readers, 3*m.desks, 3*m.cacheTokens
	m.span, m.speed = 6*time.Second, 20
	var out, say bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-json", "-record", file}, m, &out, &say), say.String())
	overHTTP := hitRates(t, &out)
	var names []string
	for i := range m.instances {
		names = append(names, fmt.Sprintf("sim-%d", i))
	}
	// Random lots alone have a standard deviation of over one point in a run of this
	// mix. The whole mix is in the replay's README.
	for policy, within := range map[string]float64{"random": .05, "affinity": .03} {
		replay := exec.CommandContext(t.Context(), "go", "run", "../replay", "-trace", file+"-"+policy+".jsonl", "-policies", policy,
			"-json", "-clients", "1", "-seeds", "5", "-names", strings.Join(names, ","), "-cache", fmt.Sprint(m.cacheTokens), "-speed", fmt.Sprint(m.speed))
		replay.Stdout, replay.Stderr = &out, &say
		require.NoError(t, replay.Run(), say.String())
		simulated := hitRates(t, &out)
		t.Logf("%s: %.3f over HTTP, %.3f simulated", policy, overHTTP[policy], simulated[policy])
		require.InDelta(t, overHTTP[policy], simulated[policy], within, policy)
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
