package affinity

import (
	"math"
	"sync/atomic"
)

// average is a running mean that forgets: plain over the first values, then
// each new one counts for one part in so many. Lock-free; the zero value knows
// nothing.
type average struct {
	// The mean's bits but for the last eight, which are the number of values: in
	// one word, so that nobody sees the one without the other.
	word atomic.Uint64
}

// averageCount masks the number of values.
const averageCount = 1<<8 - 1

// add takes a value into a mean over about the last most values, 255 at most.
func (a *average) add(v float64, most uint64) {
	for {
		old := a.word.Load()
		n := max(old&averageCount, min(old&averageCount+1, most, averageCount))
		mean := math.Float64frombits(old &^ averageCount)
		mean += (v - mean) / float64(min(n, most))
		next := math.Float64bits(mean)&^averageCount | n
		if next == old || a.word.CompareAndSwap(old, next) {
			return
		}
	}
}

// assume begins the mean as if so many values had been v, before any is added.
func (a *average) assume(v float64, count uint64) {
	a.word.Store(math.Float64bits(v)&^averageCount | count)
}

// or returns the mean, or what to assume before the first value.
func (a *average) or(unknown float64) float64 {
	word := a.word.Load()
	if word&averageCount == 0 {
		return unknown
	}
	return math.Float64frombits(word &^ averageCount)
}
