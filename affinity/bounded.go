package affinity

import "math/bits"

// boundedLoad picks the key's home or, when that cannot take the request, the
// first of the key's order that can: available, not tried, below its hard
// limit, and with no more than its bounded share of the load. When only the
// bound is in the way everywhere, the least loaded endpoint gets it.
//
// Overflow follows the key's own order, because then the keys of a full home
// spread over all others, and each key overflows to the same place in every
// client. A walk to the next endpoint of a ring would pile all of it onto one
// neighbour (envoyproxy/envoy#12529).
func (r *Router) boundedLoad(c *choice, tried []string) {
	g, home := c.group, c.home
	if c.reason = c.barred(tried); c.reason == ReasonNone {
		// Below the floor there is no need to add up the fleet's load.
		if home.tally.load() >= r.floor && !r.bound(g).open(home) {
			c.reason = ReasonOverflowLoad
		} else if home.tally.acquire(home.limit) {
			c.slot, c.reason = home, ReasonHome
			return
		} else {
			c.reason = ReasonOverflowFull // others filled it up meanwhile
		}
	}
	b := r.bound(g)
	for c.slot == nil {
		i := first(g, g.up, c.seed, func(s *slot) bool { return b.open(s) && !s.full() && !s.tried(tried) })
		if i < 0 {
			c.slot = r.takeLeast(c, tried)
			break
		}
		if s := &g.up[i]; s.tally.acquire(s.limit) {
			c.slot = s
		}
	}
	if c.slot == home {
		c.reason = ReasonHome // it got room meanwhile, or is the least loaded after all
	}
}

// first returns the index of the slot that comes first for seed among those
// that may serve, -1 if there is none; a nil may allows all.
func first(g *group, slots []slot, seed uint64, may func(*slot) bool) int {
	best := -1
	var top rank
	for i := range slots {
		s := &slots[i]
		d := draw(seed, s.idHash)
		if best >= 0 && d <= top.draw && s.weight <= top.weight {
			continue // with equal weights this is all there is to compare
		}
		k := rank{draw: d, weight: s.weight}
		if g.logs != nil {
			k = g.logs.rank(d, s.weight)
			if best >= 0 && !k.before(top) {
				continue
			}
		}
		if may == nil || may(s) {
			best, top = i, k
		}
	}
	return best
}

// A bound is the load above which a key's home is left: the larger of a floor
// and factor * (total + 1) * weight / total weight, rounded up: the paper's
// capacity of a bin is ⌈c·m/n⌉, without which few requests on many endpoints would
// find no room at all. KubeAI compares without rounding, which comes to rounding
// down.
type bound struct {
	floor int64
	share uint64 // factor * (total + 1), with loadFraction bits after the point
	whole uint64 // total weight, with loadFraction bits after the point
}

// bound adds up the load of the available endpoints.
func (r *Router) bound(g *group) bound {
	total := int64(1) // the request itself
	for i := range g.up {
		total += g.up[i].tally.load()
	}
	return bound{floor: r.floor, share: r.factor * uint64(total), whole: g.weight << loadFraction}
}

// open tells whether one more request keeps the slot within its bound. For a
// whole number n, n < ceil(x) is n < x, so the division is multiplied out.
func (b bound) open(s *slot) bool {
	n := s.tally.load()
	if n < b.floor {
		return true
	}
	hi1, lo1 := bits.Mul64(uint64(n), b.whole)
	hi2, lo2 := bits.Mul64(b.share, s.weight)
	return hi1 < hi2 || hi1 == hi2 && lo1 < lo2
}
