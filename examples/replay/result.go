package main

import (
	"math"
	"slices"
	"time"
)

// result is a trial summed up. Rates and shares are fractions, times are in
// seconds.
type result struct {
	Kind    string `json:"kind"` // simulated, measured or predicted
	Policy  string `json:"policy"`
	Clients int    `json:"clients"`
	Seed    uint64 `json:"seed"`

	Requests     int     `json:"requests"` // answered
	PromptTokens int     `json:"prompt_tokens"`
	HitRate      float64 `json:"hit_rate"` // prompt tokens that came from a cache, by the engines' counters
	TTFTMean     float64 `json:"ttft_mean"`
	TTFT50       float64 `json:"ttft_p50"`
	TTFT90       float64 `json:"ttft_p90"`
	TTFT99       float64 `json:"ttft_p99"`
	Total50      float64 `json:"total_p50"`
	Total90      float64 `json:"total_p90"`
	Total99      float64 `json:"total_p99"`

	ShareMin        float64 `json:"share_min"` // of all requests, at the instance with the fewest
	ShareMax        float64 `json:"share_max"`
	PrefillShareMax float64 `json:"prefill_share_max"` // of all tokens computed, at the instance with the most
	PrefillMaxMean  float64 `json:"prefill_max_mean"`  // the same over the mean of all instances
	OverflowRate    float64 `json:"overflow_rate"`     // of requests that would have gone elsewhere in an idle and healthy fleet
	Throughput      float64 `json:"throughput"`        // prompt and output tokens a second
	RequestRate     float64 `json:"request_rate"`      // requests a second

	// Of the requests sent in the ten minutes after the fleet changed; absent
	// when it does not.
	AfterHitRate  *float64 `json:"after_hit_rate,omitempty"`
	AfterTTFTMean *float64 `json:"after_ttft_mean,omitempty"`

	InfiniteHitRate float64 `json:"infinite_hit_rate"` // of one infinite cache

	Shares []float64 `json:"shares"` // of all requests, by instance

	// Only of a run on real endpoints.
	Live *liveResult `json:"live,omitempty"`
}

// liveResult is what a simulation has no need to tell.
type liveResult struct {
	Failed           int      `json:"failed"`            // requests without an answer
	Retried          int      `json:"retried"`           // requests that took more than one attempt
	ReportedHitRate  *float64 `json:"reported_hit_rate"` // by the cached_tokens of the answers; null when none has them
	InstancesCounted int      `json:"instances_counted"` // whose counters are in hit_rate; 0: hit_rate is the reported one
	LateMean         float64  `json:"late_mean"`         // seconds that requests waited for a free place before they were sent
	FirstError       string   `json:"first_error,omitempty"`
}

// afterChange is the window in which the effect of a change is measured.
const afterChange = 10 * time.Minute

// result sums up a trial.
func (r *trial) result() result {
	s := result{Kind: r.kind, Policy: r.arm.policy.name, Clients: r.arm.clients, Seed: r.arm.seed}
	var ttft, total, late []float64
	var prompt, output, known, cached, overflow float64
	var afterPrompt, afterCached float64
	var afterTTFT []float64
	var begin, end time.Duration
	picks := make([]int, len(r.instances))
	computed := make([]float64, len(r.instances))
	live := &liveResult{}
	for i, o := range r.outcomes {
		if i == 0 || o.sent < begin {
			begin = o.sent
		}
		end = max(end, o.sent+o.total)
		late = append(late, o.late.Seconds())
		if o.attempts > 1 {
			live.Retried++
		}
		if o.err != nil {
			live.Failed++
			if live.FirstError == "" {
				live.FirstError = o.err.Error()
			}
			continue
		}
		ttft, total = append(ttft, o.first.Seconds()), append(total, o.total.Seconds())
		prompt, output = prompt+float64(o.prompt), output+float64(o.output)
		if o.cached >= 0 {
			known, cached = known+float64(o.prompt), cached+float64(o.cached)
		}
		if o.overflow {
			overflow++
		}
		if o.instance >= 0 {
			picks[o.instance]++
			computed[o.instance] += float64(o.prompt - max(o.cached, 0))
		}
		if r.windowed && o.sent >= r.window && o.sent < r.window+afterChange {
			afterPrompt, afterCached = afterPrompt+float64(o.prompt), afterCached+float64(max(o.cached, 0))
			afterTTFT = append(afterTTFT, o.first.Seconds())
		}
	}
	s.Requests, s.PromptTokens = len(ttft), int(prompt)
	answered := float64(max(len(ttft), 1))
	span := max((end - begin).Seconds(), 1e-9)
	s.HitRate = cached / max(known, 1)
	if known > 0 {
		reported := s.HitRate
		live.ReportedHitRate = &reported
	}
	s.TTFTMean, s.TTFT50, s.TTFT90, s.TTFT99 = mean(ttft), quantile(ttft, .5), quantile(ttft, .9), quantile(ttft, .99)
	s.Total50, s.Total90, s.Total99 = quantile(total, .5), quantile(total, .9), quantile(total, .99)
	s.OverflowRate = overflow / answered
	s.Throughput, s.RequestRate = (prompt+output)/span, answered/span
	for _, n := range picks {
		s.Shares = append(s.Shares, float64(n)/answered)
	}
	s.ShareMin, s.ShareMax = slices.Min(s.Shares), slices.Max(s.Shares)

	var queries, hits float64
	for i, in := range r.instances {
		if !in.counted {
			continue
		}
		live.InstancesCounted++
		queries, hits = queries+in.queries, hits+in.hits
		computed[i] = in.queries - in.hits
	}
	if r.kind == measured && queries > 0 {
		s.HitRate = hits / queries
	}
	var all float64
	for _, c := range computed {
		all += c
	}
	s.PrefillShareMax = slices.Max(computed) / max(all, 1)
	s.PrefillMaxMean = s.PrefillShareMax * float64(len(computed))
	if r.windowed {
		hit, first := afterCached/max(afterPrompt, 1), mean(afterTTFT)
		s.AfterHitRate, s.AfterTTFTMean = &hit, &first
	}
	if r.kind == measured {
		live.LateMean = mean(late)
		s.Live = live
	}
	return s
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(len(x), 1))
}

// quantile sorts x.
func quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return x[min(len(x)-1, int(q*float64(len(x))))]
}

// spread returns the standard deviation of x.
func spread(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	m, sum := mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}
