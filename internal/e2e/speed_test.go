package e2e

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

// speeds is testdata/speed.json. Rows are numbers, apart from what the batches
// add at their ends.
type speeds struct {
	Measured struct {
		Prefill [][3]float64 `json:"prefill"` // tokens, processor seconds, seconds
		Cached  [][4]float64 `json:"cached"`  // tokens, those cached, processor seconds, seconds
		Decode  [][3]float64 `json:"decode"`  // sequences, tokens of context each, seconds a step
	} `json:"measured"`
	Fits vllmsim.Fits `json:"fits"`
}

// config is the simulator with the fitted constants: the engine of the
// recordings, not a GPU. Its steps have one base duration, which is a prompt's
// share of 77.6 ms too large to be that of a decoding step.
func (s *speeds) config(step float64) vllmsim.Config {
	seconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
	return vllmsim.Config{
		BlockTokens: 32, CacheTokens: 1 << 20, MaxModelLen: 16384, MaxBatchTokens: 8192,
		PrefillTokensPerSecond: 1 / s.Fits.Prefill.Token, PrefillPairsPerSecond: 1 / s.Fits.Prefill.Pair,
		DecodeStep: seconds(step), DecodeSequence: seconds(s.Fits.Decode.Sequence), DecodeContextToken: seconds(s.Fits.Decode.Token),
	}
}

// TestSimulatorHasTheEnginesSpeed runs what was measured on the engine on the
// simulator with the constants that were fitted to it. They are off by less
// than a tenth in the mean for prefill, and by less than a seventh for decoding.
func TestSimulatorHasTheEnginesSpeed(t *testing.T) {
	text, err := os.ReadFile("testdata/speed.json")
	require.NoError(t, err)
	var s speeds
	require.NoError(t, json.Unmarshal(text, &s))

	var prefill, decode errors
	for _, row := range s.Measured.Prefill {
		prefill.add(firstToken(t, s.config(s.Fits.Prefill.Start), int(row[0]), 0), row[1])
	}
	for _, row := range s.Measured.Cached {
		prefill.add(firstToken(t, s.config(s.Fits.Prefill.Start), int(row[0]), int(row[1])), row[2])
	}
	for _, row := range s.Measured.Decode {
		decode.add(stepTime(t, s.config(s.Fits.Decode.Step), int(row[0]), int(row[1])), row[2])
	}
	t.Logf("prefill: off by %.1f %% in the mean of %d, %.1f %% at the most", 100*prefill.mean(), prefill.n, 100*prefill.most)
	t.Logf("decoding: off by %.1f %% in the mean of %d, %.1f %% at the most", 100*decode.mean(), decode.n, 100*decode.most)
	require.Equal(t, 20, prefill.n)
	require.Equal(t, 12, decode.n)
	require.Less(t, prefill.mean(), .10)
	require.Less(t, decode.mean(), .15)
}

// errors adds up relative errors.
type errors struct {
	n         int
	sum, most float64
}

func (e *errors) add(predicted, measured float64) {
	off := math.Abs(predicted/measured - 1)
	e.n, e.sum, e.most = e.n+1, e.sum+off, max(e.most, off)
}

func (e *errors) mean() float64 { return e.sum / float64(e.n) }

// firstToken returns the seconds to the first token of a prompt of which the
// first tokens are in the cache.
func firstToken(t *testing.T, cfg vllmsim.Config, tokens, cached int) float64 {
	engine, err := vllmsim.NewEngine(cfg)
	require.NoError(t, err)
	hashes := make([]uint64, tokens/cfg.BlockTokens)
	for i := range hashes {
		hashes[i] = uint64(i + 1)
	}
	now := time.Duration(0)
	if cached > 0 {
		_, err := engine.Submit(now, vllmsim.Request{PromptTokens: cached, OutputTokens: 1, Hashes: hashes[:cached/cfg.BlockTokens]})
		require.NoError(t, err)
		now = time.Hour
		engine.Advance(now, func(vllmsim.Event) {})
	}
	before := engine.Counters().TTFT.Sum
	_, err = engine.Submit(now, vllmsim.Request{PromptTokens: tokens, OutputTokens: 1, Hashes: hashes})
	require.NoError(t, err)
	engine.Advance(now+time.Hour, func(vllmsim.Event) {})
	return (engine.Counters().TTFT.Sum - before).Seconds()
}

// stepTime returns the seconds of a step in which so many sequences decode.
func stepTime(t *testing.T, cfg vllmsim.Config, sequences, context int) float64 {
	engine, err := vllmsim.NewEngine(cfg)
	require.NoError(t, err)
	for range sequences {
		_, err := engine.Submit(0, vllmsim.Request{PromptTokens: context, OutputTokens: 40})
		require.NoError(t, err)
	}
	var ends []time.Duration
	for len(ends) == 0 || engine.Running() > 0 {
		at, ok := engine.Next()
		if !ok {
			break
		}
		ends = append(ends, at)
		engine.Advance(at, func(vllmsim.Event) {})
	}
	// In the middle all of them decode and none computes a prompt.
	mid := len(ends) - 20
	return (ends[mid] - ends[mid-1]).Seconds()
}
