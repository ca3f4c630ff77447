package vllmsim

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Defaults of Config. The timing constants are assumed: they describe a model
// of the 70B class, tensor-parallel over four H100-class accelerators, and are
// the same as those of the laboratory in which the placement rules were
// developed, so that its results can be compared with this package's.
const (
	DefaultModel                  = "sim-70b"
	DefaultVersion                = "0.32.0"              // the newest vLLM whose behaviour this package follows
	DefaultBlockTokens            = 16                    // vLLM's default on CUDA
	DefaultCacheTokens            = 400_000               // assumed: what such a fleet keeps free for KV per instance
	DefaultMaxModelLen            = 131_072               // context of the Llama 3.1 and Qwen 2.5 families
	DefaultMaxBatchTokens         = 4096                  // assumed max_num_batched_tokens
	DefaultMaxSequences           = 128                   // assumed max_num_seqs
	DefaultPrefillTokensPerSecond = 1 / 83e-6             // assumed: 83 µs for each uncached prompt token
	DefaultPrefillPairsPerSecond  = 1 / 1.5e-9            // assumed: 1.5 ns for each pair of token and context token
	DefaultDecodeStep             = 14 * time.Millisecond // assumed: one pass over the weights
	DefaultDecodeSequence         = 50 * time.Microsecond // assumed
	DefaultDecodeContextToken     = 40 * time.Nanosecond  // assumed
	DefaultOutputTokens           = 256                   // assumed: an answer of a chat
)

// Config describes one engine. The zero value is usable: every zero field
// takes the default named beside it.
type Config struct {
	Name     string   // shown as system_fingerprint in answers, so that a test can see who answered; empty: null, as vLLM
	Model    string   // the served base model; DefaultModel
	Adapters []string // LoRA adapters served beside it
	Version  string   // GET /version; DefaultVersion

	BlockTokens     int  // tokens of one cache block; DefaultBlockTokens
	CacheTokens     int  // tokens of KV memory, rounded down to whole blocks; DefaultCacheTokens
	NoPrefixCaching bool // every prompt is computed whole (vLLM's --no-enable-prefix-caching)
	ReuseOutput     bool // blocks of generated tokens can be hit by later prompts; off, as whether text comes back as the same tokens cannot be relied on

	MaxModelLen    int  // prompt and output together; DefaultMaxModelLen, or all of the cache if that is less
	MaxBatchTokens int  // token budget of one step (chunked prefill); DefaultMaxBatchTokens
	MaxSequences   int  // sequences running at once; DefaultMaxSequences
	MaxQueue       int  // sequences, running or waiting, above which the server answers 503; 0: no bound, as vLLM without --max-num-queued-reqs, which counts so too
	ReserveOutput  bool // a sequence takes blocks for its whole output when it is admitted, so that nothing is ever preempted (a simplification that the laboratory makes)

	PrefillTokensPerSecond float64       // linear part of prefill; DefaultPrefillTokensPerSecond
	PrefillPairsPerSecond  float64       // quadratic part: pairs of a computed token and a token before it; DefaultPrefillPairsPerSecond
	PrefillStep            time.Duration // added to a step that computes tokens of prompts; 0
	DecodeStep             time.Duration // base duration of every step; DefaultDecodeStep
	DecodeSequence         time.Duration // added for each sequence that decodes in a step; DefaultDecodeSequence
	DecodeContextToken     time.Duration // added for each token of context of those sequences; DefaultDecodeContextToken
	TimeScale              float64       // divides every duration above: 10 is an engine ten times as fast; 1
	DecodeStretch          int           // steps that only decode, merged into one event of virtual time (an arrival cuts the stretch short); 1: none

	OutputTokens          int    // longest answer when the request does not ask for less; the length of each is drawn from a hash of its prompt; DefaultOutputTokens
	APIKey                string // required as a bearer token under /v1 when not empty
	NoPromptTokensDetails bool   // usage without prompt_tokens_details (vLLM's own default; here cached_tokens is shown unless this is set)
	RequestIDHeaders      bool   // X-Request-Id is echoed (vLLM's --enable-request-id-headers)
}

// resolve fills in the defaults and reports the first value that cannot be.
func (c Config) resolve() (Config, error) {
	fill := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if c.Model == "" {
		c.Model = DefaultModel
	}
	if c.Version == "" {
		c.Version = DefaultVersion
	}
	fill(&c.BlockTokens, DefaultBlockTokens)
	fill(&c.CacheTokens, DefaultCacheTokens)
	fill(&c.MaxBatchTokens, DefaultMaxBatchTokens)
	fill(&c.MaxSequences, DefaultMaxSequences)
	fill(&c.DecodeStretch, 1)
	fill(&c.OutputTokens, DefaultOutputTokens)
	if c.BlockTokens < 1 || c.CacheTokens < c.BlockTokens {
		return c, fmt.Errorf("vllmsim: a cache of %d tokens has no block of %d tokens", c.CacheTokens, c.BlockTokens)
	}
	capacity := c.CacheTokens / c.BlockTokens * c.BlockTokens
	fill(&c.MaxModelLen, min(DefaultMaxModelLen, capacity))
	if c.MaxModelLen > capacity {
		return c, fmt.Errorf("vllmsim: MaxModelLen %d does not fit into the cache of %d tokens: raise CacheTokens or lower MaxModelLen", c.MaxModelLen, capacity)
	}
	if c.MaxModelLen < 2 || c.MaxBatchTokens < 1 || c.MaxSequences < 1 || c.MaxQueue < 0 || c.DecodeStretch < 1 || c.OutputTokens < 1 {
		return c, errors.New("vllmsim: limits must be positive")
	}
	if c.PrefillTokensPerSecond == 0 {
		c.PrefillTokensPerSecond = DefaultPrefillTokensPerSecond
	}
	if c.PrefillPairsPerSecond == 0 {
		c.PrefillPairsPerSecond = DefaultPrefillPairsPerSecond
	}
	if c.DecodeStep == 0 {
		c.DecodeStep = DefaultDecodeStep
	}
	if c.DecodeSequence == 0 {
		c.DecodeSequence = DefaultDecodeSequence
	}
	if c.DecodeContextToken == 0 {
		c.DecodeContextToken = DefaultDecodeContextToken
	}
	if c.TimeScale == 0 {
		c.TimeScale = 1
	}
	if c.PrefillTokensPerSecond < 0 || c.PrefillPairsPerSecond < 0 || c.PrefillStep < 0 || c.DecodeStep < 0 ||
		c.DecodeSequence < 0 || c.DecodeContextToken < 0 || c.TimeScale < 0 {
		return c, errors.New("vllmsim: durations and speeds must be positive")
	}
	seen := map[string]bool{c.Model: true}
	for _, a := range c.Adapters {
		if strings.TrimSpace(a) == "" || seen[a] {
			return c, fmt.Errorf("vllmsim: adapter name %q is empty or already served", a)
		}
		seen[a] = true
	}
	return c, nil
}
