package client

import (
	"time"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/discovery"
)

// gauges are what an engine told of itself, and when.
type gauges struct {
	discovery.Metrics
	at time.Time
}

const (
	// gaugesValid is as long as package affinity believes a reading.
	gaugesValid = 4 * time.Second
	// idleAfter is when a client without calls stops to ask: its processes may
	// be many, and each asks each engine.
	idleAfter = 30 // s
)

// inUse tells whether there are calls, or have been of late.
func (f *fleet) inUse() bool {
	return time.Now().Unix()-f.used.Load() <= idleAfter || f.flights.Len() > 0
}

// observe passes on what an engine tells of itself. An engine that does not
// cache has nothing to tell: its counts say nothing of what waits.
func (f *fleet) observe(id string, m discovery.Metrics) {
	f.gauges.Store(id, gauges{m, time.Now()})
	// Looked up afterwards: set changes the endpoints first, and then forgets
	// what was stored, so one of the two sees an endpoint that leaves now.
	if _, here := (*f.endpoints.Load())[id]; !here {
		f.gauges.Delete(id)
		return
	}
	if m.NoPrefixCaching {
		return
	}
	f.router.Observe(id, affinity.Gauges{
		Running: m.Running, Waiting: m.Waiting,
		PrefixQueries: m.PrefixQueries, PrefixHits: m.PrefixHits,
		PromptTokens: m.PromptTokens, FirstTokens: m.FirstTokens, CacheTokens: m.CacheTokens,
	})
}

// cacheTokens is the KV memory of an endpoint, on average over those that have
// ever told it; 0 is unknown.
func (f *fleet) cacheTokens() int {
	sum, n := 0, 0
	f.gauges.Range(func(_, v any) bool {
		if size := v.(gauges).CacheTokens; size > 0 {
			sum, n = sum+size, n+1
		}
		return true
	})
	return sum / max(n, 1)
}

// seen returns the gauges of an endpoint, if there are recent ones.
func (f *fleet) seen(id string) (gauges, bool) {
	v, ok := f.gauges.Load(id)
	if !ok {
		return gauges{}, false
	}
	g := v.(gauges)
	return g, time.Since(g.at) <= gaugesValid
}
