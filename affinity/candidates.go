package affinity

// maxOrder is how many of a key's order a pick looks at.
const maxOrder = 4

// order is the beginning of a key's order of endpoints.
type order struct {
	n     int
	slots [maxOrder]*slot
}

// leaders are the first few slots for a seed, the first one first.
type leaders struct {
	n     int
	slots [maxSpread]*slot
	ranks [maxSpread]rank
}

// lead finds the first k of slots.
func (l *leaders) lead(g *group, slots []slot, seed uint64, k int) {
	for i := range slots {
		l.enter(g, &slots[i], seed, k)
	}
}

// enter puts a slot in its place among the first k.
func (l *leaders) enter(g *group, s *slot, seed uint64, k int) {
	r := rank{draw: draw(seed, s.idHash), weight: s.weight}
	if g.logs != nil {
		r = g.logs.rank(r.draw, s.weight)
	}
	if l.n == k {
		if !r.before(l.ranks[k-1]) {
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
	if spread >= len(slots) {
		var l leaders
		l.lead(g, slots, root, maxOrder)
		o.n = copy(o.slots[:], l.slots[:l.n])
		return o
	}
	var homes, own leaders
	homes.lead(g, slots, head, max(spread, maxOrder))
	spread = min(spread, homes.n)
	for _, s := range homes.slots[:spread] {
		own.enter(g, s, root, maxOrder)
	}
	o.n = copy(o.slots[:], own.slots[:own.n])
	o.n += copy(o.slots[o.n:], homes.slots[spread:homes.n])
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
