package affinity

import (
	"slices"
	"strings"
)

// Pick chooses the endpoint for a request and counts it as in flight there;
// release the lease when the request is over. It takes no lock and allocates
// nothing unless it returns an error.
//
// Endpoints in req.Tried are passed over. When every available endpoint has
// been tried, the least loaded of them is picked again, but not the one tried
// last unless it is the only one: what failed a moment ago is likelier to fail
// again than what failed before it.
//
// The errors are [ErrNoEndpoints], a *[ModelError], [ErrOverLimit] (only with
// [OverLimitRefuse]) and, for a sticky request, a *[StickyError].
func (r *Router) Pick(req *Request) (Lease, error) {
	snap := r.snap.Load()
	if req.Sticky != "" {
		return r.sticky(snap, req.Sticky)
	}
	g, err := snap.group(req.Model)
	if err != nil {
		return Lease{}, err
	}
	if len(req.Tried) > 0 && !untried(g.up, req.Tried) {
		return r.again(g, req)
	}
	var c choice
	switch *r.strategy.Load() {
	case LeastOutstanding:
		c = choice{slot: r.leastLoaded(g, req.Tried, 0), reason: ReasonLeastLoaded}
	case RoundRobin:
		c = roundRobin(g, req.Tried)
	case Random:
		c = r.random(g, req.Tried)
	default:
		c = r.atHome(g, req)
	}
	if c.slot == nil {
		return r.overLimit(g, req.Tried, c)
	}
	return r.lease(c), nil
}

// A choice is an endpoint on which one request has been counted; slot is nil
// when every candidate was at its hard limit.
type choice struct {
	slot   *slot
	home   *slot // nil without one
	reason Reason
	seed   uint64 // breaks ties between equal loads; 0 leaves them to chance
}

func (r *Router) lease(c choice) Lease {
	c.slot.tally.picks[c.reason].Add(1)
	l := Lease{router: r, tally: c.slot.tally, since: r.now(), reason: c.reason}
	if c.home != nil {
		l.home = c.home.tally
		if c.home.tally != c.slot.tally {
			l.home.away.Add(1)
		}
	}
	return l
}

// sticky serves a request whose state lives on one endpoint. Health is not
// asked: nothing else can serve it.
func (r *Router) sticky(snap *snapshot, id string) (Lease, error) {
	m, ok := snap.byID[id]
	if !ok || m.draining {
		return Lease{}, &StickyError{Endpoint: strings.Clone(id), Draining: ok}
	}
	if !m.tally.acquire(m.limit) {
		if r.refuse {
			return Lease{}, ErrOverLimit
		}
		m.tally.acquire(0)
	}
	return r.lease(choice{slot: &m.slot, reason: ReasonSticky}), nil
}

// again serves a call that has tried every available endpoint.
func (r *Router) again(g *group, req *Request) (Lease, error) {
	c := choice{reason: ReasonFailover}
	if key := req.rootKey(); key != 0 && *r.strategy.Load() == Affinity {
		c.seed = mix(key)
		c.home = &g.all[first(g, g.all, c.seed, nil)]
	}
	others := req.Tried[len(req.Tried)-1:]
	if len(g.up) == 1 {
		others = nil
	}
	c.slot = r.leastLoaded(g, others, c.seed)
	if c.slot == nil {
		return r.overLimit(g, others, c)
	}
	return r.lease(c), nil
}

// overLimit is where a pick ends when all its candidates are at their limits.
func (r *Router) overLimit(g *group, tried []string, c choice) (Lease, error) {
	if r.refuse {
		return Lease{}, ErrOverLimit
	}
	if c.seed == 0 {
		c.seed = r.lot()
	}
	c.slot = leastLoaded(g.up, tried, c.seed, true)
	switch {
	case !c.slot.tally.acquire(c.slot.limit):
		c.slot.tally.acquire(0)
		c.reason = ReasonOverLimit
	case c.slot == c.home: // it got room since it was looked at
		c.reason = ReasonHome
	}
	return r.lease(c), nil
}

// untried tells whether any of the slots has not been tried.
func untried(slots []slot, tried []string) bool {
	for i := range slots {
		if !slots[i].tried(tried) {
			return true
		}
	}
	return false
}

func (s *slot) tried(tried []string) bool {
	return len(tried) > 0 && slices.Contains(tried, s.tally.id)
}
