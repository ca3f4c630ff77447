package affinity

import (
	"math"
	"sync/atomic"
)

// average is a running mean that forgets: plain over the first values, then
// each new one counts for one part in so many. Lock-free; the zero value is 0.
type average struct {
	value atomic.Uint64 // bits
	n     atomic.Int64
}

// add takes a value into a mean over about the last most values.
func (a *average) add(v float64, most int64) {
	n := most
	if a.n.Load() < most {
		n = min(a.n.Add(1), most)
	}
	for {
		old := a.value.Load()
		mean := math.Float64frombits(old)
		if a.value.CompareAndSwap(old, math.Float64bits(mean+(v-mean)/float64(n))) {
			return
		}
	}
}

// or returns the mean, or what to assume before the first value.
func (a *average) or(unknown float64) float64 {
	if a.n.Load() == 0 {
		return unknown
	}
	return math.Float64frombits(a.value.Load())
}
