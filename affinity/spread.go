package affinity

import "math/bits"

// roundRobin takes the available endpoints in turn. One that is at its limit
// or tried already gives its turn to the next.
//
// With unequal weights the turns of a full round are dealt out in steps of the
// golden ratio, so that an endpoint of weight 3 gets its three turns apart and
// not in a row.
func roundRobin(c *choice, tried []string) {
	c.reason = ReasonRoundRobin
	g := c.group
	turn := g.cursor.Add(1)
	at := int(turn % uint64(len(g.up)))
	if g.stops != nil {
		round := g.stops[len(g.stops)-1]
		at = g.at(turn % round * g.stride % round)
	}
	for range g.up {
		if s := &g.up[at]; !s.tried(tried) && s.tally.acquire(s.limit) {
			c.slot = s
			return
		}
		if at++; at == len(g.up) {
			at = 0
		}
	}
}

// random picks by lot. When the lot falls on an endpoint that cannot be used,
// it is drawn again among those that can, so that no neighbour gets the share
// of a full one.
func (r *Router) random(c *choice, tried []string) {
	c.reason = ReasonRandom
	g := c.group
	places := uint64(len(g.up))
	if g.stops != nil {
		places = g.stops[len(g.stops)-1]
	}
	at, _ := bits.Mul64(r.lot(), places)
	if g.stops != nil {
		at = uint64(g.at(at))
	}
	if s := &g.up[at]; !s.tried(tried) && s.tally.acquire(s.limit) {
		c.slot = s
		return
	}
	for {
		s := lottery(g.up, tried, r.lot())
		if s == nil || s.tally.acquire(s.limit) {
			c.slot = s
			return
		}
	}
}

// lottery draws among the slots that are neither tried nor full, by weight, in
// one pass: the k-th of them replaces the winner so far with a probability of
// its weight over the weight of the first k.
func lottery(slots []slot, tried []string, lot uint64) *slot {
	var winner *slot
	var sum uint64
	for i := range slots {
		s := &slots[i]
		if s.full() || s.tried(tried) {
			continue
		}
		sum += s.weight
		if at, _ := bits.Mul64(draw(lot, s.idHash), sum); at < s.weight {
			winner = s
		}
	}
	return winner
}

// at returns the index of the slot that the n-th place of a round belongs to.
func (g *group) at(n uint64) int {
	low, high := 0, len(g.stops)-1
	for low < high {
		if mid := (low + high) / 2; g.stops[mid] > n {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// goldenStride returns the step near n over the golden ratio that has no
// factor in common with n: stepping by it visits every place of a round of n
// once, and any few steps in a row lie far apart.
func goldenStride(n uint64) uint64 {
	stride := max(1, n*618/1000)
	for gcd(stride, n) != 1 {
		stride++
	}
	return stride
}
