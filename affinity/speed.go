package affinity

import (
	"math"
	"sync"
	"sync/atomic"
)

// pace is how long an engine computes on a prompt: a time for each token, and
// one for each pair of a token and a token before it, which is what attention
// costs. Both in seconds.
type pace struct{ token, pair float64 }

// prefill returns the seconds that an otherwise idle engine takes for a prompt
// of which it holds the first cached tokens.
func (p pace) prefill(cached, prompt float64) float64 {
	n := max(0, prompt-cached)
	return n * (p.token + p.pair*(cached+n/2))
}

// defaultPace is assumed until responses have taught better: 0.1 ms a token,
// about what a model of 70 billion parameters takes on four data-centre GPUs.
// Only its order of magnitude matters, and not for long.
var defaultPace = pace{token: 1e-4}

// Learning a pace. Times to first token hold a wait that nobody tells us,
// never the opposite, so they are taken as an upper bound that is sometimes
// met: a regression on expectiles (Newey and Powell, "Asymmetric least squares
// estimation and testing", Econometrica 55(4), 1987) instead of on the mean.
const (
	speedExpectile = .05  // weight of an observation above the estimate; one below has 1
	speedMemory    = .995 // an observation counts for this much less with each that follows: the last 200 matter
	speedRidge     = .02  // pulls the time for pairs to 0 while prompts are too alike to tell the two apart
	speedScale     = 1e4  // brings both regressors to the same order of magnitude
	minLearn       = 200  // computed tokens below which a time to first token says more about everything else
	maxLearnWait   = .1   // seconds of expected wait above which the same holds
)

// speed learns a fleet's pace from its responses. The zero value knows nothing.
type speed struct {
	token, pair atomic.Uint64 // bits of the pace; 0 before the first lesson

	mu                      sync.Mutex // held for a few multiplications
	nn, nc, cc, sumN, sumNC float64
}

// pace returns what has been learned. The two numbers may be of two lessons.
func (s *speed) pace() pace {
	token := math.Float64frombits(s.token.Load())
	if token == 0 {
		return defaultPace
	}
	return pace{token, math.Float64frombits(s.pair.Load())}
}

// learn takes one observation: computed tokens behind cached ones took so many
// seconds to the first token, on an instance that seemed idle.
func (s *speed) learn(cached, computed, seconds float64) {
	if computed < minLearn || seconds <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	context := cached + computed/2
	expected := s.pace().prefill(cached, cached+computed)
	weight := 1 / (computed * computed) // so that relative errors count alike
	if seconds > expected {
		// Far above, it is a wait and no observation at all.
		weight *= min(speedExpectile, speedExpectile*expected/(seconds-expected))
	}
	n, nc := computed, computed*context/speedScale
	s.nn = s.nn*speedMemory + weight*n*n
	s.nc = s.nc*speedMemory + weight*n*nc
	s.cc = s.cc*speedMemory + weight*nc*nc
	s.sumN = s.sumN*speedMemory + weight*n*seconds
	s.sumNC = s.sumNC*speedMemory + weight*nc*seconds

	cc := s.cc + speedRidge*s.nn
	det := s.nn*cc - s.nc*s.nc
	if det <= 0 {
		return
	}
	token := (s.sumN*cc - s.sumNC*s.nc) / det
	pair := (s.nn*s.sumNC - s.nc*s.sumN) / det / speedScale
	if pair < 0 {
		token, pair = s.sumN/s.nn, 0
	}
	if token > 0 {
		s.token.Store(math.Float64bits(token))
		s.pair.Store(math.Float64bits(pair))
	}
}
