package affinity

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// endpoints draws a set with unique IDs; weights are 1 unless asked for.
func endpoints(min int, weights bool) *rapid.Generator[[]Endpoint] {
	return rapid.Custom(func(t *rapid.T) []Endpoint {
		ids := rapid.SliceOfNDistinct(rapid.StringN(1, 20, -1), min, 40, rapid.ID).Draw(t, "ids")
		es := make([]Endpoint, len(ids))
		for i, id := range ids {
			es[i].ID = "e" + id // blank alone is no ID
			if weights {
				es[i].Weight = rapid.Uint32Range(0, maxWeight).Draw(t, "weight")
			}
		}
		return es
	})
}

func TestOrderDoesNotDependOnInputOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := endpoints(0, true).Draw(t, "endpoints")
		key := rapid.Uint64().Draw(t, "key")
		require.Equal(t, Order(key, es), Order(key, rapid.Permutation(es).Draw(t, "permuted")))
	})
}

func TestRemovingMovesOnlyItsOwnKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := endpoints(1, true).Draw(t, "endpoints")
		gone := rapid.IntRange(0, len(es)-1).Draw(t, "gone")
		rest := slices.Delete(slices.Clone(es), gone, gone+1)
		for range 20 {
			key := rapid.Uint64().Draw(t, "key")
			before := Order(key, es)
			at := slices.Index(before, es[gone].ID)
			require.Equal(t, slices.Delete(before, at, at+1), Order(key, rest), "the others keep their order")
		}
	})
}

func TestChangingAWeightMovesKeysOnlyToOrFromIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := endpoints(2, true).Draw(t, "endpoints")
		changed := slices.Clone(es)
		heavier := es[0].weight() + uint64(rapid.IntRange(1, 1000).Draw(t, "more"))
		changed[0].Weight = uint32(heavier)
		for range 20 {
			key := rapid.Uint64().Draw(t, "key")
			before, after := Order(key, es)[0], Order(key, changed)[0]
			if before != after {
				require.Equal(t, es[0].ID, after)
			}
		}
	})
}

func TestEqualWeightsOrderLikeNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := endpoints(1, false).Draw(t, "endpoints")
		same := slices.Clone(es)
		w := rapid.Uint32Range(1, maxWeight).Draw(t, "weight")
		for i := range same {
			same[i].Weight = w
		}
		key := rapid.Uint64().Draw(t, "key")
		require.Equal(t, Order(key, es), Order(key, same))
	})
}

func TestPickFollowsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := endpoints(1, rapid.Bool().Draw(t, "weights")).Draw(t, "endpoints")
		r, err := New(Options{Limit: 1, OverLimit: OverLimitRefuse})
		require.NoError(t, err)
		require.NoError(t, r.Set(es))
		req := Request{Root: rapid.Uint64Min(1).Draw(t, "root")}
		_, key := req.Keys()
		var got []string
		for range es {
			lease, err := r.Pick(&req)
			require.NoError(t, err)
			got = append(got, lease.Endpoint())
		}
		require.Equal(t, Order(key, es), got)
		_, err = r.Pick(&req)
		require.ErrorIs(t, err, ErrOverLimit)
	})
}

// within requires that n of total is the share expected of it, give or take
// five standard deviations: by chance one run in two million fails.
func within(t testing.TB, n, total int, share float64, what string) {
	t.Helper()
	mean := float64(total) * share
	require.InDelta(t, mean, float64(n), 5*math.Sqrt(mean*(1-share))+1e-9, what)
}

func TestSharesAreEven(t *testing.T) {
	const keys = 10000
	for _, n := range []int{2, 8, 31} {
		es := fleet(n)
		homes, seconds := map[string]int{}, map[string]int{}
		for key := range uint64(keys) { // small numbers: the worst of keys
			order := Order(key, es)
			homes[order[0]]++
			if order[0] == es[0].ID {
				seconds[order[1]]++
			}
		}
		for _, e := range es {
			within(t, homes[e.ID], keys, 1/float64(n), "home of its share")
			if e.ID != es[0].ID {
				within(t, seconds[e.ID], homes[es[0].ID], 1/float64(n-1), "second of its share of one home's keys")
			}
		}
	}
}

func TestAddingMovesItsShare(t *testing.T) {
	const keys = 5000
	for _, n := range []int{3, 8, 31} {
		es := fleet(n + 1)
		moved := 0
		for key := range uint64(keys) {
			before, after := Order(key, es[:n])[0], Order(key, es)[0]
			if before != after {
				moved++
				require.Equal(t, es[n].ID, after, "keys move to the new one only")
			}
		}
		within(t, moved, keys, 1/float64(n+1), "moved")
	}
}

func TestWeightsAreRespected(t *testing.T) {
	const keys = 20000
	for _, weights := range [][]uint32{{1, 2}, {1, 3, 0}, {65536, 32768, 1}, {5, 5, 5, 1, 1, 1, 1, 1}, {100, 101, 99}} {
		es := fleet(len(weights))
		var sum float64
		for i := range es {
			es[i].Weight = weights[i]
			sum += float64(es[i].weight())
		}
		homes := map[string]int{}
		for key := range uint64(keys) {
			homes[Order(key, es)[0]]++
		}
		for i := range es {
			within(t, homes[es[i].ID], keys, float64(es[i].weight())/sum, fmt.Sprint(weights, " ", i))
		}
	}
}

func TestNegLog2(t *testing.T) {
	logs := logTable()
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Uint64().Draw(t, "x") >> rapid.UintRange(0, 63).Draw(t, "shift")
		if rapid.Bool().Draw(t, "near one") {
			x = ^x
		}
		got := float64(logs.negLog2(x)) / (1 << logFraction)
		require.InDelta(t, 64-math.Log2(float64(x)+1), got, 2e-7)
		if x > 0 {
			require.LessOrEqual(t, logs.negLog2(x), logs.negLog2(x-1), "it never rises")
		}
	})
	require.Equal(t, uint64(64)<<logFraction, logs.negLog2(0))
	require.Zero(t, logs.negLog2(math.MaxUint64))
}

func TestEqualCostsFallBackOnTheDraw(t *testing.T) {
	logs := logTable()
	first, second := logs.rank(math.MaxUint64-10, 1), logs.rank(math.MaxUint64-11, 1)
	require.Equal(t, first.cost, second.cost, "too close for the logarithm")
	require.True(t, first.before(second))
	require.False(t, second.before(first))
	require.False(t, first.before(first))
	third := logs.rank(math.MaxUint64-12, 3) // three times the weight, about a third of the quotient
	require.True(t, third.before(first))
}
