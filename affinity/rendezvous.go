package affinity

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// Rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to
// increase hit rates", IEEE/ACM Transactions on Networking 6(1), 1998) gives
// each pair of a key and an endpoint a random-looking number, and each key the
// endpoints in the order of those numbers. An endpoint that leaves takes only
// its own keys along, each to its own next one; an endpoint that joins takes
// its share of keys from all others and moves no other.
//
// With weights the number is an exponential variate with the weight as its
// rate, and the smallest comes first (Efraimidis and Spirakis, "Weighted random
// sampling with a reservoir", Information Processing Letters 97(5), 2006): an
// endpoint comes first for a share of keys equal to its share of the weight,
// and changing one weight moves keys only to or from that endpoint. Everything
// is in integers, because floating point may differ between architectures and
// then clients would disagree about some keys.

// Order returns the IDs of endpoints in the order in which they would serve
// the key: the home first, then where it overflows to. Only ID and Weight
// count; the order of the input does not. It is what a pick of BoundedLoad
// follows, and one of Affinity whose head may live on all endpoints; for tests and
// tools. It allocates.
func Order(key uint64, endpoints []Endpoint) []string {
	type ranked struct {
		id string
		rank
	}
	all := make([]ranked, len(endpoints))
	seed, t := mix(key), logTable()
	for i := range endpoints {
		e := &endpoints[i]
		all[i] = ranked{e.ID, t.rank(draw(seed, hashID(e.ID)), e.weight())}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		if a.before(b.rank) {
			return -1
		}
		if b.before(a.rank) {
			return 1
		}
		return strings.Compare(a.id, b.id)
	})
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].id
	}
	return ids
}

// mix is the 64-bit finalizer of SplitMix64 in David Stafford's variant 13: a
// bijection in which each input bit flips each output bit with probability
// close to one half.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// draw is the random-looking number of a key and an endpoint. The key comes
// mixed, since a caller may use small numbers as keys.
func draw(seed, idHash uint64) uint64 { return mix(seed ^ idHash) }

// rank is an endpoint's place in a key's order: cost/weight, smallest first.
type rank struct {
	draw, cost, weight uint64
}

func (t *logs) rank(draw, weight uint64) rank {
	return rank{draw: draw, cost: t.negLog2(draw), weight: weight}
}

// before compares cost/weight exactly, by cross-multiplying into 128 bits.
// Equal quotients fall back on the draw, so that endpoints of equal weight are
// in the order of their draws to the last bit: a fleet of equal weights needs
// no logarithm at all.
func (r rank) before(o rank) bool {
	if r.weight == o.weight {
		return r.draw > o.draw
	}
	return r.cheaper(o)
}

// cheaper is before for different weights.
func (r rank) cheaper(o rank) bool {
	hi1, lo1 := bits.Mul64(r.cost, o.weight)
	hi2, lo2 := bits.Mul64(o.cost, r.weight)
	if c := cmp.Or(cmp.Compare(hi1, hi2), cmp.Compare(lo1, lo2)); c != 0 {
		return c < 0
	}
	return r.draw > o.draw
}
