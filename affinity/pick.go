package affinity

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Pick chooses the endpoint for a request and counts it as in flight there;
// release the lease when the request is over. It allocates nothing unless it returns
// an error, and waits for no lock but once, when the index is made.
//
// Endpoints in req.Tried are passed over. When every available endpoint has
// been tried, the least loaded of them is picked again, but not the one tried
// last unless it is the only one.
//
// The errors are [ErrNoEndpoints], a *[ModelError], [ErrOverLimit] (only with
// [OverLimitRefuse]), for a sticky request a *[StickyError], and with
// [FixedPrefix] [ErrRoutingID]; and that of [ParseStrategy] for req.Strategy.
func (r *Router) Pick(req *Request) (l Lease, err error) {
	now := r.clock()
	r.tick(now)
	snap := r.snap.Load()
	if req.Sticky != "" {
		err = r.sticky(&l, snap, req.Sticky, now)
		return l, err
	}
	g, err := snap.group(req.Model)
	if err != nil {
		return Lease{}, err
	}
	strategy := *r.strategy.Load()
	if req.Strategy != "" {
		if strategy = req.Strategy; !slices.Contains(strategies, strategy) {
			_, err := ParseStrategy(strings.Clone(string(strategy)))
			return Lease{}, err
		}
	}
	tried := req.Tried
	c := choice{group: g, sent: snap.sent, scope: req.scope()}
	if strategy == Affinity && req.Last != "" {
		c.last = snap.usable(g, req.Last, tried)
	}
	exhausted := len(tried) > 0 && !untried(g.up, tried)
	if exhausted {
		// What failed last is likelier to fail again than what failed before.
		tried = tried[len(tried)-1:]
		if len(g.up) == 1 {
			tried = nil
		}
	}
	if strategy == Affinity && req.rooted() && !exhausted && (len(req.Boundaries) > 0 || r.look(now) != nil) {
		r.affine(&c, &l.plan, req, tried, now)
	} else if err := r.unpriced(&c, strategy, req, tried, exhausted); err != nil {
		return Lease{}, err
	}
	if c.slot == nil && !r.overLimit(&c, tried) {
		return Lease{}, ErrOverLimit
	}
	l.begin(r, c.slot, c.home, c.reason, now)
	return l, nil
}

// unpriced picks by a rule that weighs no prices.
func (r *Router) unpriced(c *choice, strategy Strategy, req *Request, tried []string, exhausted bool) error {
	key, err := r.key(strategy, req, c.scope)
	if err != nil {
		return err
	}
	if g := c.group; key != 0 {
		c.seed = mix(key)
		at := first(g, g.all, c.seed, nil)
		c.home, c.homeUp = &g.all[at], at < len(g.up)
	}
	switch {
	case exhausted:
		c.reason = ReasonFailover
		if c.slot = r.takeLeast(c, tried); c.slot != nil && c.slot == c.home {
			c.reason = ReasonHome
		}
	case strategy == RoundRobin:
		roundRobin(c, tried)
	case strategy == Random:
		r.random(c, tried)
	case r.stay(c, tried):
	case key == 0: // LeastOutstanding, or nothing to hash
		c.reason = ReasonLeastLoaded
		c.slot = r.takeLeast(c, tried)
	case strategy == FixedPrefix:
		r.fixedPrefix(c, tried)
	default:
		r.boundedLoad(c, tried)
	}
	return nil
}

// key returns what the strategy hashes of a request, 0 for nothing.
func (r *Router) key(s Strategy, req *Request, scope scope) (uint64, error) {
	switch s {
	case Affinity, BoundedLoad:
		return scope.root(req), nil
	case FixedPrefix:
		return req.prefixKey(r.prefix.Length)
	}
	return 0, nil
}

// A choice is one pick under way. A strategy sets slot, on which it has counted
// the request, and reason; no slot means that every candidate was at its limit.
type choice struct {
	group  *group
	sent   func() *index
	scope  scope
	seed   uint64 // of the key's order; 0 without a key
	home   *slot  // nil without a key
	homeUp bool   // the home is available
	last   *slot  // that served the last turn and may serve this one; nil if unknown

	slot   *slot
	reason Reason
}

// barred says why the home cannot be picked whatever its load, ReasonNone if it
// can.
func (c *choice) barred(tried []string) Reason {
	switch {
	case !c.homeUp:
		return ReasonUnavailable
	case c.home.tried(tried):
		return ReasonFailover
	case c.home.full():
		return ReasonOverflowFull
	}
	return ReasonNone
}

// settle says why the slot was picked: what barred the home if anything did, or
// else why another one is better.
func (c *choice) settle(tried []string, better Reason) {
	switch {
	case c.slot == c.home:
		c.reason = ReasonHome
	case c.home == nil:
		c.reason = better
	default:
		c.reason = cmp.Or(c.barred(tried), better)
	}
}

// begin makes a lease of a pick.
func (l *Lease) begin(r *Router, s, home *slot, reason Reason, now time.Duration) {
	s.tally.picks[reason].Add(1)
	l.router, l.tally, l.since, l.reason = r, s.tally, now, reason
	if home != nil {
		l.home = home.tally
		if home.tally != s.tally {
			l.home.away.Add(1)
		}
	}
}

// sticky serves a request whose state lives on one endpoint. Health is not
// asked: nothing else can serve it.
func (r *Router) sticky(l *Lease, snap *snapshot, id string, now time.Duration) error {
	m, ok := snap.byID[id]
	if !ok || m.draining {
		return &StickyError{Endpoint: strings.Clone(id), Draining: ok}
	}
	if !m.tally.acquire(m.limit) {
		if r.refuse {
			return ErrOverLimit
		}
		m.tally.acquire(0)
	}
	l.begin(r, &m.slot, nil, ReasonSticky, now)
	return nil
}

// overLimit is where a pick ends when all its candidates are at their limits: it
// takes the least loaded all the same, unless it is to refuse.
func (r *Router) overLimit(c *choice, tried []string) bool {
	if r.refuse {
		return false
	}
	c.slot = leastLoaded(c.group.up, tried, cmp.Or(c.seed, r.lot()), true)
	switch {
	case !c.slot.tally.acquire(c.slot.limit):
		c.slot.tally.acquire(0)
		c.reason = ReasonOverLimit
	case c.slot == c.home: // it got room since it was looked at
		c.reason = ReasonHome
	}
	return true
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
