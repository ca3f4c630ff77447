package fleettest

// Stats is what one instance has done since it was started last.
type Stats struct {
	Name  string
	Alive bool

	Requests         int // sequences accepted; a request with n > 1 counts n times
	PromptTokens     int // of sequences that have had their first output
	CachedTokens     int // those of them that came from the prefix cache
	GenerationTokens int
	Aborted          int // sequences that were given up, mostly because their client went away
	Preemptions      int
	Rejected         int // refused because the queue was full

	Running, Waiting int // sequences at this moment
}

// HitRate is the share of prompt tokens that came from the cache; 0 without any.
func (s Stats) HitRate() float64 {
	if s.PromptTokens == 0 {
		return 0
	}
	return float64(s.CachedTokens) / float64(s.PromptTokens)
}

// Stats returns the figures of every instance, in order. Those of a killed
// instance are as they were when it was killed, with nothing running.
func (f *Fleet) Stats() []Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]Stats, len(f.instances))
	for i, in := range f.instances {
		all[i] = in.stats()
	}
	return all
}

// Total sums the figures of several instances; it is alive when one of them is.
func Total(all []Stats) Stats {
	t := Stats{Name: "total"}
	for _, s := range all {
		t.Alive = t.Alive || s.Alive
		t.Requests += s.Requests
		t.PromptTokens += s.PromptTokens
		t.CachedTokens += s.CachedTokens
		t.GenerationTokens += s.GenerationTokens
		t.Aborted += s.Aborted
		t.Preemptions += s.Preemptions
		t.Rejected += s.Rejected
		t.Running += s.Running
		t.Waiting += s.Waiting
	}
	return t
}

func (in *instance) stats() Stats {
	if in.sim == nil {
		return in.last
	}
	c := in.sim.Counters()
	s := Stats{
		Name: in.name, Alive: true,
		Requests: int(c.Requests), PromptTokens: int(c.PromptTokens), CachedTokens: int(c.CachedTokens),
		GenerationTokens: int(c.GenerationTokens), Aborted: int(c.Aborted), Preemptions: int(c.Preemptions),
		Rejected: int(c.Rejected),
	}
	s.Running, s.Waiting = in.sim.Load()
	return s
}
