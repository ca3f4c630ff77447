package affinity

import (
	"math"
	"slices"
	"time"
)

// maxOrder is how many of a key's order a pick looks at.
const maxOrder = 4

// order is the beginning of a key's order of endpoints, and has room for others
// that a pick looks at as well.
type order struct {
	n     int
	slots [maxOrder + 1 + maxKnown]*slot
	alone bool // the head is most of the prompt and worth only one copy
}

// append adds a slot if it is not there yet.
func (o *order) append(s *slot) {
	if !slices.Contains(o.slots[:o.n], s) {
		o.slots[o.n] = s
		o.n++
	}
}

// first puts a slot first, in the place of the last if it is not among them.
func (o *order) first(s *slot) {
	i := slices.Index(o.slots[:o.n], s)
	if i < 0 {
		i = o.n - 1
	}
	copy(o.slots[1:i+1], o.slots[:i])
	o.slots[0] = s
}

// leaders are the first few slots for a seed, the first one first: as many as
// there is room for.
type leaders struct {
	n     int
	slots []*slot
	ranks []rank
}

// lead finds the first of slots.
func (l *leaders) lead(g *group, slots []slot, seed uint64) {
	last := rank{weight: math.MaxUint64} // of those found, once there is no more room
	for i := range slots {
		s := &slots[i]
		d := draw(seed, s.idHash)
		if d <= last.draw && s.weight <= last.weight && l.n == len(l.ranks) {
			continue // as most do; no logarithm is needed to tell
		}
		l.enter(g, s, d)
		if l.n == len(l.ranks) {
			last = l.ranks[l.n-1]
		}
	}
}

// enter puts a slot in its place, if it is among the first.
func (l *leaders) enter(g *group, s *slot, draw uint64) {
	r := rank{draw: draw, weight: s.weight}
	if g.logs != nil {
		r = g.logs.rank(draw, s.weight)
	}
	if l.n == len(l.ranks) {
		if !r.before(l.ranks[l.n-1]) {
			return
		}
		l.n--
	}
	at := l.n
	for at > 0 && r.before(l.ranks[at-1]) {
		l.slots[at], l.ranks[at] = l.slots[at-1], l.ranks[at-1]
		at--
	}
	l.slots[at], l.ranks[at] = s, r
	l.n++
}

// fill makes the beginning of the order in which slots, of which there must be
// one at least, serve a conversation. The first are those on which its head may
// live, in the conversation's own order; then come the others.
func (o *order) fill(g *group, slots []slot, head, root uint64, spread int) {
	switch {
	case spread < len(slots):
		o.among(g, slots, head, root, spread)
	case g.logs == nil:
		o.lead(slots, root)
	default:
		var ranks [maxOrder]rank
		own := leaders{slots: o.slots[:maxOrder], ranks: ranks[:]}
		own.lead(g, slots, root)
		o.n = own.n
	}
}

// lead fills an order with the first of slots of equal weight: those with the
// largest draws. Each draw is as good as any, so a processor that guesses how
// they compare is as often wrong as right, and pays more for it than all
// comparisons cost. Hence no branch depends on one until most of a large fleet
// fall short.
func (o *order) lead(slots []slot, seed uint64) {
	var d1, d2, d3, d4 uint64 // the four largest
	var s1, s2, s3, s4 int    // and whose they are
	for i := range slots {
		d := draw(seed, slots[i].idHash)
		if i >= 4*maxOrder && d <= d4 {
			continue
		}
		if d > d4 {
			d4, s4 = d, i
		}
		if d > d3 {
			d4, s4 = d3, s3
		}
		if d > d3 {
			d3, s3 = d, i
		}
		if d > d2 {
			d3, s3 = d2, s2
		}
		if d > d2 {
			d2, s2 = d, i
		}
		if d > d1 {
			d2, s2 = d1, s1
		}
		if d > d1 {
			d1, s1 = d, i
		}
	}
	o.n = min(maxOrder, len(slots))
	o.slots[0], o.slots[1], o.slots[2], o.slots[3] = &slots[s1], &slots[s2], &slots[s3], &slots[s4]
}

// among is fill where a head may live on some of the slots only.
func (o *order) among(g *group, slots []slot, head, root uint64, spread int) {
	if g.logs == nil && spread <= maxOrder {
		o.lead(slots, head)
		own := o.slots[:spread]
		for i := range own {
			for ; i > 0 && draw(root, own[i].idHash) > draw(root, own[i-1].idHash); i-- {
				own[i], own[i-1] = own[i-1], own[i]
			}
		}
		return
	}
	var homes [maxSpread]*slot
	var ranks [maxSpread]rank
	n := max(spread, maxOrder)
	if g.logs == nil {
		largest(homes[:n], slots, head)
	} else {
		home := leaders{slots: homes[:n], ranks: ranks[:n]}
		home.lead(g, slots, head)
		n = home.n
		spread = min(spread, n)
	}
	own := leaders{slots: o.slots[:maxOrder], ranks: ranks[:maxOrder]}
	for _, s := range homes[:spread] {
		own.enter(g, s, draw(root, s.idHash))
	}
	o.n = own.n
	o.n += copy(o.slots[o.n:maxOrder], homes[spread:n])
}

// largest finds those of slots that have the largest draws, in no order.
func largest(found []*slot, slots []slot, seed uint64) {
	var draws [maxSpread]uint64
	least, at := uint64(0), 0 // the smallest of them and its place, once all places are taken
	for i := range slots {
		d := draw(seed, slots[i].idHash)
		if i < len(found) {
			at = i
		} else if d < least {
			continue
		}
		found[at], draws[at] = &slots[i], d
		if i+1 < len(found) {
			continue
		}
		least = d
		for j, d := range draws[:len(found)] {
			if d < least {
				least, at = d, j
			}
		}
	}
}

// shift puts another endpoint first where the first one has too much inflow and
// hands on the key: of the order the one with the least, since one with more than
// its share as well would only hand on keys in turn.
func (o *order) shift(key uint64, now time.Duration) {
	first := o.slots[0]
	least := first.tally.inflow(now)
	if !handsOn(least, draw(mix(key+handOnDomain), first.idHash)) {
		return
	}
	for _, s := range o.slots[1:o.n] {
		if inflow := s.tally.inflow(now); inflow < least {
			first, least = s, inflow
		}
	}
	o.first(first)
}

// handOnDomain keeps the choice of keys that are handed on apart from that of
// keys that have their home somewhere: the latter are all large draws.
const handOnDomain = 0x68616e646f6e
