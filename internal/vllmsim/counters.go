package vllmsim

import (
	"slices"
	"time"
)

// Counters is what an engine has counted since it started, as vLLM's metrics
// name it.
type Counters struct {
	Requests         uint64 // submitted
	Rejected         uint64 // refused with ErrQueueFull
	PrefixQueries    uint64 // prompt tokens looked up, counted at admission
	PrefixHits       uint64 // prompt tokens found, counted at admission
	PromptTokens     uint64 // counted when the first output appears
	CachedTokens     uint64 // those of PromptTokens that came from the cache
	GenerationTokens uint64
	Stopped          uint64 // finished by themselves
	Cut              uint64 // finished at a length limit
	Aborted          uint64 // cancelled
	Preemptions      uint64

	// As vLLM publishes them at the end of a step: an arrival during a step is
	// seen when the next one is over. Engine.Running and Engine.Waiting have no
	// such delay.
	Running, Waiting int

	UsedBlocks, TotalBlocks int // blocks that sequences hold, and all

	TTFT    Histogram // submission to first output
	Latency Histogram // submission to last output
}

// Counters returns a copy of the engine's counters.
func (e *Engine) Counters() Counters {
	c := e.stats
	c.UsedBlocks, c.TotalBlocks = e.pool.capacity()-e.pool.free, e.pool.capacity()
	c.TTFT.Counts = slices.Clone(c.TTFT.Counts)
	c.Latency.Counts = slices.Clone(c.Latency.Counts)
	return c
}

func (e *Engine) account(s *sequence, ev *Event) {
	if ev.First {
		e.stats.PromptTokens += uint64(s.prompt)
		e.stats.CachedTokens += uint64(s.cached)
		e.stats.TTFT.observe(ev.At - s.arrived)
	}
	e.stats.GenerationTokens += uint64(ev.Tokens)
	if ev.Done {
		e.stats.Latency.observe(ev.At - s.arrived)
		if s.cut {
			e.stats.Cut++
		} else {
			e.stats.Stopped++
		}
	}
}

// publishGauges shows the queue as it was when the last step was planned and
// the sequences that are left at its end.
func (e *Engine) publishGauges() {
	e.stats.Running, e.stats.Waiting = len(e.running), e.step.waiting
}

// Histogram counts durations into buckets as Prometheus does.
type Histogram struct {
	Bounds []float64 // upper bounds, seconds, ascending; not to be modified
	Counts []uint64  // one more than Bounds: the last is above all
	Sum    time.Duration
	Count  uint64
}

// Buckets of vLLM's time_to_first_token_seconds and e2e_request_latency_seconds.
var (
	ttftBounds = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5,
		10, 20, 40, 80, 160, 640, 2560}
	latencyBounds = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240,
		480, 960, 1920, 7680}
)

func newHistogram(bounds []float64) Histogram {
	return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

func (h *Histogram) observe(d time.Duration) {
	i, _ := slices.BinarySearch(h.Bounds, d.Seconds())
	h.Counts[i]++
	h.Sum += d
	h.Count++
}
