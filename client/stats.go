package client

import (
	"sync/atomic"
	"time"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/middleware"
)

// Stats is what a client has seen since it was made. It is this client's own
// view: other processes' requests are not in it.
type Stats struct {
	// Strategy is the one in use.
	Strategy Strategy
	// Endpoints are the fleet's, sorted by identity, and those that have left
	// while requests are in flight there.
	Endpoints []EndpointStats
	// Calls counts the calls that have ended; Failed those without an answer
	// (an *Error), Refused those with an error response of an engine,
	// Canceled those that the caller gave up.
	Calls, Failed, Refused, Canceled uint64
	// Retries counts the attempts after a call's first.
	Retries uint64
	// PromptTokens and CachedTokens add up what engines reported, over the
	// calls for which they reported both. Reporting is how many those are. An
	// engine that has reported cached tokens before and leaves them out means
	// none.
	PromptTokens, CachedTokens, Reporting uint64
	// Unreported is for how many calls an engine told the prompt tokens and not
	// the cached ones; embeddings, which have none, are not counted.
	Unreported uint64
	// FirstByte and Total are the times of successful calls: to the first
	// content of a stream, and to the end of the answer.
	FirstByte, Total Quantiles

	// For Advice.
	sample      *sample
	members     int
	cacheTokens int // of an endpoint on average, 0 unknown
}

// HitRate is the part of the prompt tokens that came from the engines'
// caches, 0 to 1; 0 when no engine reports it (vLLM does with
// --enable-prompt-tokens-details).
func (s Stats) HitRate() float64 {
	return float64(s.CachedTokens) / float64(max(s.PromptTokens, 1))
}

// EndpointStats is what a client has seen of one endpoint.
type EndpointStats struct {
	// ID is the endpoint's identity, and URL its address.
	ID, URL string
	// Health is "healthy", "unhealthy" or "unknown"; Models what it serves,
	// nil when that is unknown.
	Health string
	Models []string
	// InFlight is the number of attempts of this client under way.
	InFlight int
	// Gauges is whether the engine tells of itself at /metrics; without it the
	// strategy Affinity goes by this client's own requests. Running and Waiting
	// are then the requests of all clients there, and CacheTokens is its KV
	// memory in tokens, 0 if unknown.
	Gauges           bool
	Running, Waiting int
	CacheTokens      int
	// Requests counts attempts, and Share is their part of all, 0 to 1.
	Requests uint64
	Share    float64
	// Overflow counts the attempts that were sent here although another
	// endpoint is preferred, by reason.
	Overflow map[string]uint64
	// Failed counts the attempts that failed by the endpoint's doing.
	Failed uint64
	// Aside is whether it is set aside at the moment, and Ejections how often
	// it was; see affinity.Ejection.
	Aside     bool
	Ejections uint64
	// PromptTokens and CachedTokens are as in Stats.
	PromptTokens, CachedTokens uint64
	// ForeseenTokens is how many tokens the strategy Affinity expected to be
	// cached here, of ForeseenOf tokens of prompt; it does not know what
	// engines have dropped.
	ForeseenTokens, ForeseenOf uint64
}

// HitRate is the part of the prompt tokens that came from the endpoint's cache,
// 0 to 1; 0 when it does not report it.
func (e EndpointStats) HitRate() float64 {
	return float64(e.CachedTokens) / float64(max(e.PromptTokens, 1))
}

// Quantiles describe a set of durations, within 5 %.
type Quantiles struct {
	Count         uint64
	P50, P90, P99 time.Duration
}

// Stats returns what the client has seen so far.
func (c *Client) Stats() Stats {
	s := c.collector.stats()
	s.Strategy = c.fleet.router.Strategy()
	members := map[string]discovery.Member{}
	for _, m := range *c.fleet.members.Load() {
		members[m.ID] = m
	}
	s.sample, s.members, s.cacheTokens = &c.collector.sample, len(members), c.fleet.cacheTokens()
	for _, e := range c.fleet.router.Stats() {
		one := EndpointStats{
			ID: e.ID, Health: "unknown", InFlight: e.InFlight, Requests: e.Picks, Share: e.Share,
			Failed: e.Failed, Aside: e.Aside, Ejections: e.Ejections, PromptTokens: e.PromptTokens, CachedTokens: e.CachedTokens,
			ForeseenTokens: e.ForeseenTokens, ForeseenOf: e.ForeseenOf,
			Overflow: map[string]uint64{},
		}
		if m, ok := members[e.ID]; ok {
			one.URL, one.Health, one.Models = m.URL.String(), m.Health.String(), m.Models
		}
		if g, ok := c.fleet.seen(e.ID); ok {
			one.Gauges, one.Running, one.Waiting, one.CacheTokens = !g.NoPrefixCaching, g.Running, g.Waiting, g.CacheTokens
		}
		for reason, n := range e.Reasons {
			if reason.Overflow() {
				one.Overflow[reason.String()] = n
			}
		}
		s.Endpoints = append(s.Endpoints, one)
	}
	return s
}

// collector takes the calls of a client that have ended. It adds them up
// without locks.
type collector struct {
	calls, failed, refused, canceled, retries atomic.Uint64
	prompt, cached, reporting, unreported     atomic.Uint64
	firstByte, total                          histogram
	since                                     time.Time
	experiment                                *experiment // nil without one
	sample                                    sample
	history                                   history
}

func (c *collector) trace() *middleware.Trace { return &middleware.Trace{Done: c.done} }

func (c *collector) done(d middleware.Done) {
	c.calls.Add(1)
	if c.experiment != nil {
		c.experiment.done(&d)
	}
	if d.Attempts > 1 {
		c.retries.Add(uint64(d.Attempts - 1))
	}
	switch d.Outcome() {
	case middleware.OutcomeCanceled:
		c.canceled.Add(1)
		return
	case middleware.OutcomeFailed:
		c.failed.Add(1)
		return
	case middleware.OutcomeRefused:
		c.refused.Add(1)
		return
	}
	if d.PromptTokens >= 0 && d.CachedTokens >= 0 {
		c.prompt.Add(uint64(d.PromptTokens))
		c.cached.Add(uint64(d.CachedTokens))
		c.reporting.Add(1)
	} else if d.PromptTokens >= 0 && d.API != canon.Embeddings {
		c.unreported.Add(1)
	}
	if d.FirstByte > 0 {
		c.firstByte.add(d.FirstByte)
	}
	c.total.add(d.Total)
	c.sample.add(&d)
	c.history.add(&d)
}

func (c *collector) stats() Stats {
	return Stats{
		Calls: c.calls.Load(), Failed: c.failed.Load(), Refused: c.refused.Load(), Canceled: c.canceled.Load(),
		Retries:      c.retries.Load(),
		PromptTokens: c.prompt.Load(), CachedTokens: c.cached.Load(), Reporting: c.reporting.Load(),
		Unreported: c.unreported.Load(),
		FirstByte:  c.firstByte.quantiles(), Total: c.total.quantiles(),
	}
}

func (h *histogram) quantiles() Quantiles {
	return Quantiles{Count: h.count.Load(), P50: h.quantile(.5), P90: h.quantile(.9), P99: h.quantile(.99)}
}
