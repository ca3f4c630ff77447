package vllmsim

// Gauges are the few of an engine's counters that a router reads, without the
// histograms that Counters copies: a replay reads them after every step.
type Gauges struct {
	Running, Waiting                                      int    // as published at the end of the last step
	PrefixQueries, PrefixHits, PromptTokens, CachedTokens uint64 // see Counters
	FirstTokens                                           uint64
}

// Gauges returns the present values. PrefixQueries and PrefixHits count a
// prompt from the moment it is admitted; a real engine shows it at the end of
// the step in which it was.
func (e *Engine) Gauges() Gauges {
	c := &e.stats
	return Gauges{
		Running: c.Running, Waiting: c.Waiting,
		PrefixQueries: c.PrefixQueries, PrefixHits: c.PrefixHits, PromptTokens: c.PromptTokens, CachedTokens: c.CachedTokens,
		FirstTokens: c.TTFT.Count,
	}
}
