package affinity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// count picks n times, releasing each at once, and counts by endpoint.
func count(t *testing.T, r *Router, n int, req Request) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		lease := pick(t, r, req)
		got[lease.Endpoint()]++
		lease.Release(Outcome{})
	}
	return got
}

func TestRoundRobinTakesTurns(t *testing.T) {
	es := fleet(5)
	es[2].Unavailable = true
	r := newRouter(t, Options{Strategy: RoundRobin}, es...)
	require.Equal(t, map[string]int{es[0].ID: 10, es[1].ID: 10, es[3].ID: 10, es[4].ID: 10}, count(t, r, 40, Request{}),
		"the neighbour of the unavailable one gets no more than its share")

	// The turn goes on where it was when the fleet changes.
	last := pick(t, r, Request{}).Endpoint()
	require.NoError(t, r.Set(es))
	require.NotEqual(t, last, pick(t, r, Request{}).Endpoint())
}

func TestRoundRobinPerModel(t *testing.T) {
	// With one turn for all models, requests for two models that alternate
	// would always meet the same endpoints.
	es := []Endpoint{{ID: "a", Models: []string{"m", "n"}}, {ID: "b", Models: []string{"m", "n"}}}
	r := newRouter(t, Options{Strategy: RoundRobin}, es...)
	got := map[string]int{}
	for range 20 {
		for _, model := range []string{"m", "n"} {
			got[model+pick(t, r, Request{Model: model}).Endpoint()]++
		}
	}
	require.Equal(t, map[string]int{"ma": 10, "mb": 10, "na": 10, "nb": 10}, got)
}

func TestRoundRobinStartsAnywhere(t *testing.T) {
	starts := map[string]bool{}
	for seed := range uint64(60) {
		r := newRouter(t, Options{Strategy: RoundRobin, Seed: seed + 1}, fleet(4)...)
		starts[pick(t, r, Request{}).Endpoint()] = true
	}
	require.Len(t, starts, 4)
}

func TestRoundRobinWeights(t *testing.T) {
	es := fleet(4)
	es[0].Weight, es[1].Weight, es[2].Weight, es[3].Weight = 200, 600, 200, 1000
	r := newRouter(t, Options{Strategy: RoundRobin}, es...)
	require.Equal(t, map[string]int{es[0].ID: 1, es[1].ID: 3, es[2].ID: 1, es[3].ID: 5}, count(t, r, 10, Request{}),
		"a round is the weights over their common divisor")
	run, longest, last := 0, 0, ""
	for range 100 {
		id := pick(t, r, Request{}).Endpoint()
		if run++; id != last {
			run, last = 1, id
		}
		longest = max(longest, run)
	}
	require.LessOrEqual(t, longest, 2, "turns of a heavy endpoint are not in a row")
}

func TestRoundRobinPassesOverFullAndTried(t *testing.T) {
	es := fleet(3)
	r := newRouter(t, Options{Strategy: RoundRobin, Limit: 1}, es...)
	pick(t, r, Request{Sticky: es[1].ID})
	got := count(t, r, 30, Request{Tried: []string{es[2].ID}})
	require.Equal(t, map[string]int{es[0].ID: 30}, got)
}

func TestGoldenStrideVisitsEveryPlace(t *testing.T) {
	for n := uint64(1); n < 300; n++ {
		seen := map[uint64]bool{}
		for i := range n {
			seen[i*goldenStride(n)%n] = true
		}
		require.Len(t, seen, int(n))
	}
}

func TestRandomFollowsWeights(t *testing.T) {
	const picks = 8000
	es := fleet(4)
	even := count(t, newRouter(t, Options{Strategy: Random}, es...), picks, Request{})
	for i := range es {
		within(t, even[es[i].ID], picks, 0.25, "even")
		es[i].Weight = uint32(i + 1)
	}
	got := count(t, newRouter(t, Options{Strategy: Random}, es...), picks, Request{})
	for i := range es {
		within(t, got[es[i].ID], picks, float64(i+1)/10, fmt.Sprint("weight ", i+1))
	}
}

func TestRandomGivesTheShareOfAFullOneToAll(t *testing.T) {
	const picks = 8000
	es := fleet(5)
	es[1].Limit, es[3].Weight = 1, 2
	r := newRouter(t, Options{Strategy: Random}, es...)
	pick(t, r, Request{Sticky: es[1].ID})
	got := count(t, r, picks, Request{Tried: []string{es[4].ID}})
	// A lot on the full or the tried one is drawn again, so that the chances
	// of the others stay as their weights.
	within(t, got[es[0].ID], picks, 0.25, "1 of 4")
	within(t, got[es[2].ID], picks, 0.25, "1 of 4")
	within(t, got[es[3].ID], picks, 0.5, "2 of 4")
}

func TestLeastOutstandingLevels(t *testing.T) {
	es := fleet(4)
	es[3].Weight = 3
	r := newRouter(t, Options{Strategy: LeastOutstanding}, es...)
	for range 3 {
		pick(t, r, Request{Sticky: es[0].ID})
	}
	for range 10 {
		pick(t, r, Request{})
	}
	got := map[string]int{}
	for _, s := range r.Stats() {
		got[s.ID] = s.InFlight
	}
	require.Equal(t, map[string]int{es[0].ID: 3, es[1].ID: 2, es[2].ID: 2, es[3].ID: 6}, got)
}

func TestLeastOutstandingStartsWithTheLargest(t *testing.T) {
	es := fleet(3)
	es[1].Weight = 2
	r := newRouter(t, Options{Strategy: LeastOutstanding}, es...)
	require.Equal(t, map[string]int{es[1].ID: 50}, count(t, r, 50, Request{}))
}

func TestLeastOutstandingBreaksTiesAtRandom(t *testing.T) {
	// Clients that all started with the first endpoint would send it their
	// first requests together, and after that all the requests that meet an
	// idle fleet.
	const picks = 8000
	es := fleet(5)
	r := newRouter(t, Options{Strategy: LeastOutstanding}, es...)
	pick(t, r, Request{Sticky: es[0].ID})
	got := count(t, r, picks, Request{Root: 1})
	require.Zero(t, got[es[0].ID])
	for _, e := range es[1:] {
		within(t, got[e.ID], picks, 0.25, "each of those that tie")
	}
}
