package client

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// cluster is a conversation of a made-up population: a hit rate of its own, a
// number of requests of its own.
type cluster struct {
	x, y   float64
	values []float32
}

func draw(r *rand.Rand, n int) []cluster {
	all := make([]cluster, n)
	for i := range all {
		own := r.Float64()        // mean 1/2
		for range 1 + r.IntN(9) { // requests, alike within the cluster
			tokens := 100 + 900*r.Float64()
			all[i].y += tokens
			all[i].x += tokens * own
			all[i].values = append(all[i].values, float32(own+.1*r.Float64()))
		}
	}
	return all
}

// The true value must be in about 95 of 100 intervals. Were the requests taken
// for independent, it would be in about 60.
func TestIntervalsCoverTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	// The truth for the ratio is 1/2 by symmetry; that of the median comes from
	// one large sample.
	large := median(draw(r, 100_000), func(c cluster) ([]float32, float64) { return c.values, 1 }).Value
	for _, n := range []int{30, 200} {
		const trials = 1000
		ratios, medians, differences := 0, 0, 0
		for range trials {
			a, b := draw(r, n), draw(r, 2*n)
			of := func(c cluster) (float64, float64) { return c.x, c.y }
			if e := ratio(a, of); e.Low <= .5 && .5 <= e.High {
				ratios++
			}
			if e := median(a, func(c cluster) ([]float32, float64) { return c.values, 1 }); e.Low <= large && large <= e.High {
				medians++
			}
			if d := ratio(a, of).minus(ratio(b, of)); d.Low <= 0 && 0 <= d.High {
				differences++
			}
		}
		for name, hits := range map[string]int{"ratio": ratios, "median": medians, "difference": differences} {
			// Four standard deviations of a share of 0.95 among 1,000 are 2.8 points.
			require.InDelta(t, .95, float64(hits)/trials, .028, "%s over %d conversations", name, n)
		}
	}
}

func TestEstimatesOfFewConversations(t *testing.T) {
	of := func(c cluster) (float64, float64) { return c.x, c.y }
	values := func(c cluster) ([]float32, float64) { return c.values, 2 }
	require.Zero(t, ratio(nil, of))
	require.Zero(t, median(nil, values))
	require.Zero(t, ratio([]cluster{{}}, of), "a conversation without tokens")
	one := []cluster{{x: 1, y: 4, values: []float32{3, 1, 2}}}
	require.Equal(t, Estimate{.25, .25, .25, 1}, ratio(one, of))
	require.Equal(t, Estimate{2, 2, 2, 1}, median(one, values))
	require.Zero(t, ratio(one, of).minus(Estimate{}))
	two := append(one, cluster{x: 3, y: 4, values: []float32{9}})
	e := ratio(two, of)
	require.Equal(t, .5, e.Value)
	require.False(t, math.IsNaN(e.Low+e.High))
	require.False(t, e.Clear(), "two conversations say nothing")
	require.InDelta(t, 2.045, quantile95(30), .005)
}
