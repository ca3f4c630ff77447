package affinity

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What holds for the order of endpoints holds for the picks of Affinity as the
// client asks for them: with the prompt's boundaries, and gauges.

// pricedHome returns where a new client sends a conversation's first turn on an
// idle fleet whose gauges it knows.
func pricedHome(t testing.TB, es []Endpoint, q Request) string {
	t.Helper()
	now := time.Unix(0, 0)
	r := newRouter(t, Options{IndexBytes: 1 << 12, Seed: 1, Now: func() time.Time { return now }}, es...)
	for range 3 {
		now = now.Add(time.Second)
		for _, e := range es {
			r.Observe(e.ID, Gauges{Running: 0, CacheTokens: 1_000_000, PrefixQueries: 1, PromptTokens: 1, FirstTokens: 1})
		}
	}
	lease := pick(t, r, q)
	require.Equal(t, lease.Home(), lease.Endpoint(), "idle")
	require.Equal(t, ReasonHome, lease.Reason())
	return lease.Home()
}

// prompt draws a first turn.
func prompt(t *rapid.T) Request {
	q := turn(rapid.Uint64Range(1, 1<<40).Draw(t, "conversation"), rapid.IntRange(1, 12).Draw(t, "boundaries"), 0)
	if rapid.Bool().Draw(t, "head") {
		q.Head = q.Boundaries[0].Hash
	}
	return q
}

func TestPricedPicksFollowTheOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		es := endpoints(1, rapid.Bool().Draw(rt, "weights")).Draw(rt, "endpoints")
		q := prompt(rt)
		_, key := q.Keys()
		home := pricedHome(t, es, q)
		require.Equal(rt, Order(key, es)[0], home)
		require.Equal(rt, home, pricedHome(t, rapid.Permutation(es).Draw(rt, "permuted"), q), "the order of the input does not matter")
		gone := rapid.IntRange(0, len(es)-1).Draw(rt, "gone")
		if rest := slices.Delete(slices.Clone(es), gone, gone+1); es[gone].ID != home {
			require.Equal(rt, home, pricedHome(t, rest, q), "removing another moves nothing")
		}
	})
}

func TestPricedSharesAndAdding(t *testing.T) {
	const keys = 3000
	for _, n := range []int{3, 8} {
		es := fleet(n + 1)
		es[0].Weight = 2
		before := newRouter(t, Options{IndexBytes: 1 << 12}, es[:n]...)
		after := newRouter(t, Options{IndexBytes: 1 << 12}, es...)
		homes, moved := map[string]int{}, 0
		for c := uint64(1); c <= keys; c++ {
			q := turn(c, 3, 0)
			was, is := pick(t, before, q), pick(t, after, q)
			require.Equal(t, ReasonHome, was.Reason())
			require.Equal(t, ReasonHome, is.Reason())
			homes[was.Endpoint()]++
			if was.Endpoint() != is.Endpoint() {
				moved++
				require.Equal(t, es[n].ID, is.Endpoint(), "keys move to the new one only")
			}
			was.Release(outcomeGood)
			is.Release(outcomeGood)
		}
		within(t, moved, keys, 1/float64(n+2), "moved")
		for i, e := range es[:n] {
			within(t, homes[e.ID], keys, float64(es[i].weight())/float64(n+1), "home of its share")
		}
	}
}
