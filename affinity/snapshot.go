package affinity

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
)

// A snapshot is what picks see of the fleet. It never changes after it is
// published; Router.Set makes a new one. What depends on the fleet alone is
// worked out here, once, and not in every pick.
type snapshot struct {
	any     *group            // for requests without a model
	models  map[string]*group // for each model that some endpoint lists
	unknown *group            // for any other model: endpoints that list none
	served  []string          // the keys of models, sorted
	byID    map[string]member

	// sent returns what was sent where, by the numbers of the slots. It is made when
	// a pick needs it, since most strategies do not.
	sent func() *index
}

type member struct {
	slot
	draining bool
}

// A slot is what a pick reads of one endpoint, side by side in memory with the
// others.
type slot struct {
	tally  *tally
	idHash uint64
	weight uint64
	limit  int64  // 0 means none
	number uint16 // of the tally, when this was published; for the snapshot's index
}

func (s *slot) full() bool { return s.limit > 0 && s.tally.load() >= s.limit }

// A group holds the endpoints that may serve one model: eligible and not
// draining. Loads are compared within it only.
type group struct {
	all []slot // the available ones first
	up  []slot // the part of all that is available; all of it when none is (fail open)

	logs   *logs    // nil when all has one weight, so that draws alone give the order
	weight uint64   // sum over up
	places []uint32 // where the slots of up are, by number; see numbered
	stops  []uint64
	stride uint64
	cursor *atomic.Uint64 // of round robin; carried from snapshot to snapshot

	drained bool // some endpoint serves the model but drains
}

// newSnapshot takes validated endpoints and their tallies. Cursors come from
// the previous snapshot, or start where seed says: clients that all started at
// the first endpoint would send it their first requests together.
func newSnapshot(endpoints []Endpoint, tallies map[string]*tally, limit int, before *snapshot, seed func() uint64) *snapshot {
	sorted := slices.Clone(endpoints)
	slices.SortFunc(sorted, func(a, b Endpoint) int { return cmp.Compare(a.ID, b.ID) })

	s := &snapshot{models: map[string]*group{}, byID: make(map[string]member, len(sorted))}
	slots := make([]slot, len(sorted))
	all := make([]int, len(sorted)) // indices into sorted, here and below
	var unknown []int
	serving := map[string][]int{}
	for i := range sorted {
		e := &sorted[i]
		t := tallies[e.ID]
		slots[i] = slot{tally: t, number: t.number, idHash: hashID(e.ID), weight: e.weight(), limit: int64(cmp.Or(e.Limit, limit))}
		s.byID[e.ID] = member{slots[i], e.Draining}
		all[i] = i
		if e.Models == nil {
			unknown = append(unknown, i)
		}
		for _, m := range e.Models {
			serving[m] = append(serving[m], i)
		}
	}
	s.served = slices.Sorted(maps.Keys(serving))

	build := func(old *group, eligible []int) *group {
		g := &group{cursor: new(atomic.Uint64)}
		if old != nil {
			g.cursor = old.cursor
		} else {
			g.cursor.Store(seed() >> 32)
		}
		var down []slot
		for _, i := range eligible {
			switch {
			case sorted[i].Draining:
				g.drained = true
			case sorted[i].Unavailable:
				down = append(down, slots[i])
			default:
				g.all = append(g.all, slots[i])
			}
		}
		n := len(g.all)
		g.all = append(g.all, down...)
		g.up = g.all[:n]
		if n == 0 {
			g.up = g.all
		}
		g.weigh()
		g.number()
		return g
	}
	if before == nil {
		before = &snapshot{}
	}
	s.any = build(before.any, all)
	s.unknown = build(before.unknown, unknown)
	for _, model := range s.served {
		eligible := append(serving[model], unknown...)
		slices.Sort(eligible)
		s.models[model] = build(before.models[model], slices.Compact(eligible))
	}
	return s
}

// weigh works out what the weights of a group come to.
func (g *group) weigh() {
	for i := range g.all {
		if g.all[i].weight != g.all[0].weight {
			g.logs = logTable()
		}
	}
	var divisor uint64
	for i := range g.up {
		g.weight += g.up[i].weight
		divisor = gcd(g.up[i].weight, divisor)
	}
	if g.logs == nil || len(g.up) == 0 {
		return
	}
	var sum uint64
	g.stops = make([]uint64, len(g.up))
	for i := range g.up {
		sum += g.up[i].weight / divisor
		g.stops[i] = sum
	}
	g.stride = goldenStride(sum)
}

// number fills places: a hash table of twice as many entries as there are slots,
// in which those of consecutive numbers do not collide. An entry is the index of
// a slot, and one more, since 0 is an empty place.
func (g *group) number() {
	size := 1 << bits.Len(uint(2*len(g.up)))
	g.places = make([]uint32, size)
	for i := range g.up {
		at := int(g.up[i].number)
		for g.places[at&(size-1)] != 0 {
			at++
		}
		g.places[at&(size-1)] = uint32(i + 1)
	}
}

// numbered returns the index in up of the endpoint with this number, -1 if it is
// not there.
func (g *group) numbered(number uint16) int {
	for at := int(number); ; at++ {
		i := int(g.places[at&(len(g.places)-1)]) - 1
		if i < 0 || g.up[i].number == number {
			return i
		}
	}
}

// group returns the endpoints that may serve the model, or an error that says
// why there are none.
func (s *snapshot) group(model string) (*group, error) {
	g := s.any
	if model != "" {
		var listed bool
		if g, listed = s.models[model]; !listed {
			g = s.unknown
		}
	}
	if len(g.all) > 0 {
		return g, nil
	}
	switch {
	case g.drained:
		return nil, errDraining
	case len(s.byID) == 0:
		return nil, ErrNoEndpoints
	}
	// The clone keeps the request's own strings from escaping to the heap.
	return nil, &ModelError{Model: strings.Clone(model), Served: slices.Clone(s.served)}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
