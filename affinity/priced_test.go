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
	if rapid.Bool().Draw(t, "session") {
		q.Session = "s"
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

// What a router has learned of other prompts' lengths does not move this one:
// processes that have seen as many heads agree, and the second of two equal
// requests follows the first.
func TestHomesDoNotDependOnWhatWasLearned(t *testing.T) {
	es := fleet(8)
	for _, tokens := range []int{50, 3000, 1_000_000} {
		fresh := newRouter(t, Options{IndexBytes: 1 << 12}, es...)
		old := newRouter(t, Options{IndexBytes: 1 << 12}, es...)
		for c := uint64(1000); c < 1020; c++ {
			pick(t, old, turn(c, 1, 0)).Release(Outcome{Status: 200, PromptTokens: tokens, CachedTokens: tokens / 2, FirstByte: time.Second})
		}
		for c := uint64(1); c <= 100; c++ {
			q := turn(c, 2, 0)
			q.Head = q.Boundaries[0].Hash
			q.Boundaries[1].Bytes += int(c%2) * 16_000 // so that the head is half of it, or a quarter
			q.Boundaries[1].Bytes -= int(c % 3)        // or more
			home := pick(t, fresh, q).Home()
			require.Equal(t, home, pick(t, fresh, q).Home())
			require.Equal(t, home, pick(t, old, q).Home(), "%d tokens", tokens)
		}
	}
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
