package affinity

import "cmp"

// takeLeast picks by load alone and counts the request there; nil means that
// every candidate is at its limit. Ties go by the key's order if there is one.
func (r *Router) takeLeast(c *choice, tried []string) *slot {
	seed := cmp.Or(c.seed, r.lot())
	for {
		s := leastLoaded(c.group.up, tried, seed, false)
		if s == nil || s.tally.acquire(s.limit) {
			return s
		}
	}
}

// leastLoaded returns the slot with the least in flight relative to its
// weight, counting the request to come, so that of two idle endpoints the
// larger is first. It passes over tried ones and, unless full ones will do,
// those at their limit; nil means that none is left.
//
// Ties go to the one that comes first for seed. With a random seed a fresh
// fleet does not get the first requests of all its clients on one endpoint,
// and each of those that tie is equally likely; with a key for a seed all
// clients break ties for that key alike.
func leastLoaded(slots []slot, tried []string, seed uint64, full bool) *slot {
	var best *slot
	var bestLoad, bestDraw uint64
	for i := range slots {
		s := &slots[i]
		n := s.tally.load()
		if !full && s.limit > 0 && n >= s.limit {
			continue
		}
		load := uint64(n + 1)
		if best != nil {
			mine, its := load*best.weight, bestLoad*s.weight
			if mine > its {
				continue
			}
			if mine == its && draw(seed, s.idHash) <= bestDraw {
				continue
			}
		}
		if s.tried(tried) {
			continue
		}
		best, bestLoad, bestDraw = s, load, draw(seed, s.idHash)
	}
	return best
}
