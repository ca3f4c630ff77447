package affinity

import "math"

// maxOrder is how many of a key's order a pick looks at.
const maxOrder = 4

// order is the beginning of a key's order of endpoints.
type order struct {
	n     int
	slots [maxOrder]*slot
	alone bool // the head is most of the prompt and worth only one copy
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

// candidates returns the beginning of the order in which slots serve a
// conversation. The first are those on which its head may live, in the
// conversation's own order; then come the others.
func candidates(g *group, slots []slot, head, root uint64, spread int) (o order) {
	if spread < len(slots) {
		return among(g, slots, head, root, spread)
	}
	if g.logs == nil {
		o.lead(slots, root)
		return o
	}
	var ranks [maxOrder]rank
	own := leaders{slots: o.slots[:], ranks: ranks[:]}
	own.lead(g, slots, root)
	o.n = own.n
	return o
}

// lead fills an order with the first of slots of equal weight: those with the
// largest draws. Each draw is as good as any, so a processor that guesses how
// they compare is as often wrong as right, and pays ten instructions' time for
// it. Hence nothing here branches on the outcome but the first line, on which
// most of a large fleet stop.
func (o *order) lead(slots []slot, seed uint64) {
	var d1, d2, d3, d4 uint64 // the four largest
	var s1, s2, s3, s4 int    // and whose they are
	for i := range slots {
		d := draw(seed, slots[i].idHash)
		if d <= d4 && i >= maxOrder {
			continue
		}
		d4, s4 = d, i
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
	if o.n > 0 {
		o.slots = [maxOrder]*slot{&slots[s1], &slots[s2], &slots[s3], &slots[s4]}
	}
}

// among is candidates where a head may live on some of the slots only.
func among(g *group, slots []slot, head, root uint64, spread int) (o order) {
	var ranks [maxSpread + maxOrder]rank
	var homes [maxSpread]*slot
	n := max(spread, maxOrder)
	home := leaders{slots: homes[:n], ranks: ranks[:n]}
	home.lead(g, slots, head)
	spread = min(spread, home.n)
	own := leaders{slots: o.slots[:], ranks: ranks[maxSpread:]}
	for _, s := range homes[:spread] {
		own.enter(g, s, draw(root, s.idHash))
	}
	o.n = own.n
	o.n += copy(o.slots[o.n:], homes[spread:home.n])
	return o
}

// shift puts the first endpoint that keeps the key first: one with too much
// inflow hands on some of its keys.
func (o *order) shift(key uint64, inflow func(*slot) float64) {
	for i := range o.n {
		s := o.slots[i]
		if handsOn(inflow(s), draw(mix(key+handOnDomain), s.idHash)) {
			continue
		}
		copy(o.slots[1:i+1], o.slots[:i])
		o.slots[0] = s
		return
	}
}

// handOnDomain keeps the choice of keys that are handed on apart from that of
// keys that have their home somewhere: the latter are all large draws.
const handOnDomain = 0x68616e646f6e
