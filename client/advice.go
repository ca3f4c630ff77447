package client

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Advice says what prefix routing does for the traffic that a client has seen,
// and how to set it up elsewhere.
type Advice struct {
	Verdict Verdict `json:"verdict"`
	// Reason is why, in a sentence.
	Reason string `json:"reason"`
	// Calls and Conversations are the size of the sample, Span the time that it
	// covers, and Part which part of the traffic it is, 0 to 1. Prompts that
	// share more than their head are in it together.
	Calls         int           `json:"calls"`
	Conversations int           `json:"conversations"`
	Span          time.Duration `json:"span_ns"`
	Part          float64       `json:"part"`
	// Instances is how many the fleet has, and CacheTokens the KV memory of one
	// in tokens; 0 is unknown, and then taken to be without bounds.
	Instances   int `json:"instances"`
	CacheTokens int `json:"cache_tokens"`
	// PromptTokens is the mean length of a prompt. It is assumed to be a token
	// for four bytes of text when no engine reports it.
	PromptTokens float64 `json:"prompt_tokens"`
	// Shared is the hit rate of a single cache without bounds, 0 to 1: all that
	// prompts share. Shared text that ends between two of the boundaries that
	// package canon sets counts up to the boundary.
	Shared float64 `json:"shared"`
	// Estimates are the hit rates that strategies would have, from a model of
	// caches alone: it knows no waiting and no other clients.
	Estimates []StrategyEstimate `json:"estimates"`
	// PrefixLength, in characters of message text, and Concurrency, in requests
	// in flight at an instance, are what to configure in a gateway that routes by
	// a fixed prefix, such as Amazon SageMaker's; 0 when it is not worth it.
	PrefixLength int `json:"prefix_length"`
	Concurrency  int `json:"concurrency"`
}

// StrategyEstimate is what a strategy is estimated to come to.
type StrategyEstimate struct {
	Strategy Strategy `json:"strategy"`
	// PrefixLength is the length in characters, for FixedPrefix.
	PrefixLength int `json:"prefix_length,omitempty"`
	// HitRate is the part of the prompts' bytes that caches would have, 0 to 1.
	HitRate float64 `json:"hit_rate"`
	// Share is the part of the calls at the instance that gets most, 0 to 1.
	Share float64 `json:"share"`
	// Work is what the instance with most to compute computes, over an equal
	// part of all prompts: 1 without caches and evenly spread, less is better.
	// A fleet has room for about 1/Work of the traffic that it would have without
	// caches.
	Work float64 `json:"work"`
}

// Verdict is what an [Advice] comes to.
type Verdict string

// The verdicts.
const (
	TooLittleData Verdict = "too little data"
	NotWorthIt    Verdict = "not worth it"
	WorthIt       Verdict = "worth it"
)

const (
	// enoughCalls puts a hit rate within some seven points.
	enoughCalls = 200
	// shortPrompt is a length, in tokens, that an engine computes in one step
	// beside all else it does: 256 of vLLM's usual budget of 2,048 and more.
	shortPrompt = 256
	// Less than littleShared of the prompts in common, or less than littleGain
	// over random routing, is within what estimates like these are worth.
	littleShared = .10
	littleGain   = .05
	// closeEnough is how far from the best in work, and then in hit rate, a
	// prefix length may be and still count as equally good.
	closeEnough = .02
)

// Advice says what prefix routing does for this client's traffic: how much
// prompts share at all, what strategies and prefix lengths would find in
// caches, and whether it is worth it. It comes from a bounded sample of the
// latest calls, of hashes and lengths only, and takes some tenths of a second:
// keep it off the request path. The zero Stats have too little data.
func (s Stats) Advice() Advice {
	a := Advice{Verdict: TooLittleData, Instances: s.members, CacheTokens: s.cacheTokens}
	var calls []sampled
	if s.sample != nil {
		calls, a.Part = s.sample.copy()
	}
	a.measure(calls)
	if a.Calls < enoughCalls {
		a.Reason = fmt.Sprintf("%d calls with a prompt have been seen; %d are needed", a.Calls, enoughCalls)
		return a
	}
	a.estimate(calls)
	random, affinity := a.Estimates[0].HitRate, a.Estimates[1].HitRate
	a.Verdict = NotWorthIt
	switch {
	case a.Instances < 2:
		a.Reason = "the fleet has one instance, so there is nothing to choose"
	case a.PromptTokens < shortPrompt:
		a.Reason = fmt.Sprintf("prompts have %.0f tokens on average, which engines compute in a step or so", a.PromptTokens)
	case a.Shared < littleShared:
		a.Reason = fmt.Sprintf("prompts have little in common: a cache without bounds would have %.0f %% of them", 100*a.Shared)
	case affinity-random < littleGain:
		a.Reason = fmt.Sprintf("any routing finds most of what is shared: random %.0f %%, by prefix %.0f %%", 100*random, 100*affinity)
	default:
		a.Verdict = WorthIt
		a.Reason = fmt.Sprintf("caches would have %.0f %% of the prompts instead of the %.0f %% with random routing: %.0f tokens less to compute for a request",
			100*affinity, 100*random, (affinity-random)*a.PromptTokens)
		a.suggest()
		return a
	}
	a.Concurrency = 0
	return a
}

// measure describes the sample.
func (a *Advice) measure(calls []sampled) {
	a.Calls = len(calls)
	if a.Calls == 0 {
		return
	}
	a.Span = calls[len(calls)-1].begun.Sub(calls[0].begun)
	roots := map[uint64]bool{}
	for i := range calls {
		roots[calls[i].root] = true
	}
	a.Conversations = len(roots)
	perByte, bytes := tokensPerByte(calls), 0
	for i := range calls {
		bytes += calls[i].bytes()
	}
	a.PromptTokens = float64(bytes) * perByte / float64(a.Calls)
}

func (c *sampled) bytes() int { return c.marks[len(c.marks)-1].bytes }

// tokensPerByte is what engines have reported, or the ratio of English text.
func tokensPerByte(calls []sampled) float64 {
	tokens, bytes := 0, 0
	for i := range calls {
		if calls[i].tokens > 0 {
			tokens, bytes = tokens+calls[i].tokens, bytes+calls[i].bytes()
		}
	}
	if bytes == 0 {
		return .25
	}
	return float64(tokens) / float64(bytes)
}

// estimate replays the sample by each strategy: random first, affinity second.
func (a *Advice) estimate(calls []sampled) {
	one := model{calls: calls, instances: 1, rate: 1}
	a.Shared = one.run(together).hit
	m := model{calls: calls, instances: max(a.Instances, 1), rate: a.Part}
	m.capacity = int(float64(a.CacheTokens) / tokensPerByte(calls))
	add := func(s Strategy, length int, r rule) {
		is := m.run(r)
		a.Estimates = append(a.Estimates, StrategyEstimate{s, length, is.hit, is.share, is.work})
	}
	add(Random, 0, byLot)
	add(Affinity, 0, byConversation)
	// A quarter more than an instance's part of the busiest moments: what
	// bounded loads allow. The range is SageMaker's.
	share := mostInFlight(calls) / a.Part / float64(m.instances)
	a.Concurrency = int(min(1024, max(modelFloor, math.Ceil(1.25*share))))
	for length := 1024; length <= 65536; length *= 2 {
		add(FixedPrefix, length, byPrefix(length, a.Concurrency))
	}
}

// suggest takes the middle of the lengths that are as good as the best: a
// shorter one may put different prompts together, a longer one part what
// belongs together. The best is the one that leaves the busiest instance least
// to compute: a length that sends everything to one has the most hits.
func (a *Advice) suggest() {
	best := math.Inf(1)
	for _, e := range a.Estimates {
		if e.Strategy == FixedPrefix {
			best = min(best, e.Work)
		}
	}
	equal := slices.DeleteFunc(slices.Clone(a.Estimates), func(e StrategyEstimate) bool {
		return e.Strategy != FixedPrefix || e.Work > best+closeEnough
	})
	hits := 0.0
	for _, e := range equal {
		hits = max(hits, e.HitRate)
	}
	var good []int
	for _, e := range equal {
		if e.HitRate >= hits-closeEnough {
			good = append(good, e.PrefixLength)
		}
	}
	a.PrefixLength = good[(len(good)-1)/2]
}

// String writes the advice for people.
func (a Advice) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "prefix routing is %s here: %s\n", a.Verdict, a.Reason)
	if a.Verdict == TooLittleData {
		return fmt.Sprintf("%s: %s\n", a.Verdict, a.Reason)
	}
	memory := "caches without bounds, since their size is unknown"
	if a.CacheTokens > 0 {
		memory = fmt.Sprintf("caches of %d tokens", a.CacheTokens)
	}
	fmt.Fprintf(&b, "estimated from %d calls of %d conversations in %v, on %d instances with %s:\n",
		a.Calls, a.Conversations, a.Span.Round(time.Second), a.Instances, memory)
	fmt.Fprintf(&b, "  %-32s hit rate %5.1f %%\n", "all that is shared", 100*a.Shared)
	for _, e := range a.Estimates {
		name := string(e.Strategy)
		if e.PrefixLength > 0 {
			name += fmt.Sprintf(", %d characters", e.PrefixLength)
		}
		fmt.Fprintf(&b, "  %-32s hit rate %5.1f %%, busiest instance %.1f %% of the calls, work %.2f\n", name, 100*e.HitRate, 100*e.Share, e.Work)
	}
	if a.PrefixLength > 0 {
		fmt.Fprintf(&b, "a gateway with a fixed prefix: %d characters, at most %d requests in flight at an instance\n", a.PrefixLength, a.Concurrency)
	}
	return b.String()
}
