package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
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
	// The run over HTTP is one more of the simulated ones, but for what HTTP takes.
	// That is worth two points on a busy machine, and random lots alone have a
	// standard deviation of over one. Affinity's places are the same in both; what is
	// left of chance had a deviation of half a point. The whole mix is in the replay's
	// README.
	for _, policy := range []string{"random", "affinity"} {
		replay := exec.CommandContext(t.Context(), "go", "run", "../replay", "-trace", file+"-"+policy+".jsonl", "-policies", policy,
			"-json", "-clients", "1", "-seeds", "30", "-names", strings.Join(names, ","), "-cache", fmt.Sprint(m.cacheTokens), "-speed", fmt.Sprint(m.speed))
		replay.Stdout, replay.Stderr = &out, &say
		require.NoError(t, replay.Run(), say.String())
		mean, deviation := moments(hitRates(t, &out)[policy])
		t.Logf("%s: %.3f over HTTP, %.3f ± %.3f simulated", policy, overHTTP[policy][0], mean, deviation)
		within := .03
		if policy == "random" {
			within = .02 + 4*deviation
		}
		require.InDelta(t, mean, overHTTP[policy][0], within, policy)
	}
}

// hitRates returns those of each policy's runs.
func hitRates(t *testing.T, lines *bytes.Buffer) map[string][]float64 {
	all := map[string][]float64{}
	for d := json.NewDecoder(lines); d.More(); {
		var r struct {
			Policy  string  `json:"policy"`
			HitRate float64 `json:"hit_rate"`
		}
		require.NoError(t, d.Decode(&r))
		all[r.Policy] = append(all[r.Policy], r.HitRate)
	}
	return all
}

// moments returns the mean of some values and their standard deviation.
func moments(values []float64) (mean, deviation float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / (n - 1)
	}
	return mean, math.Sqrt(deviation)
}
