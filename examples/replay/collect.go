package main

import (
	"math"
	"slices"
	"time"
)

// result is what came of one arm. Rates and shares are fractions, times are in
// seconds.
type result struct {
	Policy  string `json:"policy"`
	Clients int    `json:"clients"`
	Seed    uint64 `json:"seed"`

	Requests int     `json:"requests"`
	HitRate  float64 `json:"hit_rate"` // prompt tokens that came from a cache
	TTFTMean float64 `json:"ttft_mean"`
	TTFT50   float64 `json:"ttft_p50"`
	TTFT90   float64 `json:"ttft_p90"`
	TTFT99   float64 `json:"ttft_p99"`
	Total50  float64 `json:"total_p50"`
	Total90  float64 `json:"total_p90"`
	Total99  float64 `json:"total_p99"`

	ShareMin        float64 `json:"share_min"` // of all requests, at the instance with the fewest
	ShareMax        float64 `json:"share_max"`
	PrefillShareMax float64 `json:"prefill_share_max"` // of all tokens computed, at the instance with the most
	PrefillMaxMean  float64 `json:"prefill_max_mean"`  // the same over the mean of all instances
	OverflowRate    float64 `json:"overflow_rate"`     // of picks that did not go home
	Throughput      float64 `json:"throughput"`        // prompt and output tokens a second
	RequestRate     float64 `json:"request_rate"`      // requests a second

	// Of the requests sent in the ten minutes after the fleet changed; absent
	// when it does not.
	AfterHitRate  *float64 `json:"after_hit_rate,omitempty"`
	AfterTTFTMean *float64 `json:"after_ttft_mean,omitempty"`

	InfiniteHitRate float64 `json:"infinite_hit_rate"` // of one infinite cache
}

// afterChange is the window in which the effect of a change is measured.
const afterChange = 10 * time.Minute

// collector sums up a simulation.
type collector struct {
	sentCount, away      int
	begun                bool
	begin, end           time.Duration
	prompt, cached       float64
	output               float64
	ttft, total          []float64
	afterPrompt          float64
	afterCached          float64
	afterTTFT, afterSent float64
}

func (c *collector) sent(s *simulation, f *flight) {
	if !c.begun {
		c.begun, c.begin = true, s.now
	}
	c.sentCount++
	if f.lease.Home() != "" && f.lease.Home() != f.lease.Endpoint() {
		c.away++
	}
}

func (c *collector) first(s *simulation, f *flight) {
	c.ttft = append(c.ttft, f.first.Seconds())
	c.prompt += float64(f.request.prompt)
	c.cached += float64(f.cached)
	if from := s.window; s.windowed && f.sent >= from && f.sent < from+afterChange {
		c.afterPrompt += float64(f.request.prompt)
		c.afterCached += float64(f.cached)
		c.afterTTFT += f.first.Seconds()
		c.afterSent++
	}
}

func (c *collector) done(s *simulation, f *flight) {
	c.total = append(c.total, (s.now - f.sent).Seconds())
	c.output += float64(f.request.output)
	c.end = s.now
}

func (c *collector) result(s *simulation) result {
	r := result{Policy: s.arm.policy.name, Clients: s.arm.clients, Seed: s.arm.seed, Requests: len(c.ttft)}
	span := max((c.end - c.begin).Seconds(), 1e-9)
	r.HitRate = c.cached / max(c.prompt, 1)
	r.TTFTMean, r.TTFT50, r.TTFT90, r.TTFT99 = mean(c.ttft), quantile(c.ttft, .5), quantile(c.ttft, .9), quantile(c.ttft, .99)
	r.Total50, r.Total90, r.Total99 = quantile(c.total, .5), quantile(c.total, .9), quantile(c.total, .99)
	r.OverflowRate = float64(c.away) / float64(max(c.sentCount, 1))
	r.Throughput, r.RequestRate = (c.prompt+c.output)/span, float64(len(c.total))/span
	r.ShareMin = math.Inf(1)
	var computed, most float64
	for _, i := range s.fleet {
		share := float64(i.picks) / float64(max(c.sentCount, 1))
		r.ShareMin, r.ShareMax = min(r.ShareMin, share), max(r.ShareMax, share)
		g := i.engine.Gauges()
		own := float64(g.PrefixQueries - g.PrefixHits)
		computed, most = computed+own, max(most, own)
	}
	r.PrefillShareMax = most / max(computed, 1)
	r.PrefillMaxMean = r.PrefillShareMax * float64(len(s.fleet))
	if s.windowed {
		hit, ttft := c.afterCached/max(c.afterPrompt, 1), c.afterTTFT/max(c.afterSent, 1)
		r.AfterHitRate, r.AfterTTFTMean = &hit, &ttft
	}
	return r
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
