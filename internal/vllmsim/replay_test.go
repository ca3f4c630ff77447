package vllmsim

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type traceLine struct {
	Timestamp float64  `json:"timestamp"` // milliseconds
	Input     int      `json:"input_length"`
	Output    int      `json:"output_length"`
	Hashes    []uint64 `json:"hash_ids"` // of 512 tokens each
}

func loadTrace(t testing.TB) []traceLine {
	dir := os.Getenv("PREFIXWISE_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(dir, "mooncake", "conversation_trace.jsonl"))
	if err != nil {
		t.Skip("no trace data: set PREFIXWISE_DATA")
	}
	defer f.Close()
	var lines []traceLine
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var l traceLine
		require.NoError(t, json.Unmarshal(sc.Bytes(), &l))
		for i := range l.Hashes {
			l.Hashes[i]++ // 0 is not a hash
		}
		lines = append(lines, l)
	}
	require.NoError(t, sc.Err())
	return lines
}

// replayRoundRobin sends the trace to n engines in turn and returns the token
// hit rate and the mean time to first token.
func replayRoundRobin(t testing.TB, lines []traceLine, n int, cfg Config) (hitRate float64, ttft time.Duration) {
	engines := make([]*Engine, n)
	for i := range engines {
		var err error
		engines[i], err = NewEngine(cfg)
		require.NoError(t, err)
	}
	ignore := func(Event) {}
	for i, l := range lines {
		now := time.Duration(l.Timestamp * 1e6)
		e := engines[i%n]
		e.Advance(now, ignore)
		_, err := e.Submit(now, Request{PromptTokens: l.Input, OutputTokens: max(1, l.Output), Hashes: l.Hashes})
		require.NoError(t, err)
	}
	var prompt, cached, count uint64
	var sum time.Duration
	for _, e := range engines {
		e.Advance(100*time.Hour, ignore)
		c := e.Counters()
		prompt, cached = prompt+c.PromptTokens, cached+c.CachedTokens
		count, sum = count+c.TTFT.Count, sum+c.TTFT.Sum
	}
	require.EqualValues(t, len(lines), count, "every request must have had a first token")
	return float64(cached) / float64(prompt), sum / time.Duration(count)
}

// The laboratory in which the placement rules were developed is another
// implementation of the same model. On the hour of the Mooncake conversation
// trace, eight instances of a million tokens in turn, it finds a hit rate of
// 8.1 % and a mean time to first token of 3.56 s.
func TestAgreesWithLaboratory(t *testing.T) {
	lines := loadTrace(t)
	cfg := Config{BlockTokens: 512, CacheTokens: 1_000_000, MaxModelLen: 999_000, DecodeStretch: 64}
	hit, ttft := replayRoundRobin(t, lines, 8, cfg)
	t.Logf("hit rate %.2f %%, mean time to first token %v", 100*hit, ttft)
	require.InDelta(t, .081, hit, .02)
	require.InEpsilon(t, 3.561, ttft.Seconds(), .1)

	cfg.DecodeStretch = 1
	_, exact := replayRoundRobin(t, lines[:1500], 8, cfg)
	cfg.DecodeStretch = 64
	_, merged := replayRoundRobin(t, lines[:1500], 8, cfg)
	require.InEpsilon(t, exact.Seconds(), merged.Seconds(), .02, "merging passes must not change results")
}
