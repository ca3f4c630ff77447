package affinity

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Ejection says when an endpoint that fails its requests is set aside, beside
// what health checks say: a dead process fails at once, a half-dead one may
// pass its health check for hours. The zero value has the defaults.
//
// An endpoint that is set aside is treated as unavailable. When its time is
// over, it gets one request; if that goes well two at once, then four, up to
// 64, and then as many as any other (slow start); if not, it is set aside
// again, for twice as long.
//
// Only outcomes for which the endpoint is answerable count ([Outcome.Remote]),
// and a refusal (429 or 503) only while nothing else of this router's is in
// flight there: an endpoint that works on other requests is busy, not broken.
// At most half of the endpoints are set aside or in slow start at once, so
// never the only one; and when all of them look bad, none is, since then the
// fault is likelier to be elsewhere.
type Ejection struct {
	// Failures is how many requests must fail in a row; 0 means 5, which is
	// Envoy's consecutive_5xx.
	Failures int
	// Time is for how long an endpoint is set aside the first time; it doubles
	// with each time that follows without a recovery between. 0 means 10 s:
	// a third of Envoy's base_ejection_time, as a restart under Kubernetes is
	// noticed by discovery anyway, and a wrong verdict costs cached prefixes.
	Time time.Duration
	// MaxTime bounds it; 0 means 5 min, which is Envoy's max_ejection_time.
	MaxTime time.Duration
}

const (
	defaultFailures = 5
	defaultAside    = 10 * time.Second
	defaultMaxAside = 5 * time.Minute
	// fullRamp is the number of requests at once that ends the slow start: a
	// quarter of vLLM's default for max-num-seqs.
	fullRamp = 64
)

func (e *Ejection) validate() error {
	switch {
	case e.Failures < 0:
		return fmt.Errorf("affinity: Ejection.Failures is %d; use 0 for the default of %d, or leave Options.Ejection nil for no ejection", e.Failures, defaultFailures)
	case e.Time < 0 || e.MaxTime < 0:
		return fmt.Errorf("affinity: Ejection.Time is %v and MaxTime %v; use 0 for the defaults of %v and %v", e.Time, e.MaxTime, defaultAside, defaultMaxAside)
	}
	e.Failures = cmp.Or(e.Failures, defaultFailures)
	e.Time = cmp.Or(e.Time, defaultAside)
	e.MaxTime = max(cmp.Or(e.MaxTime, defaultMaxAside), e.Time)
	return nil
}

// standing is how an endpoint has done lately. It is kept in the endpoint's
// tally and guarded by Router.mu.
type standing struct {
	fails   int           // in a row
	times   int           // set aside in a row, without a full recovery between
	begun   time.Duration // of the time aside, and of the slow start after it
	until   time.Duration // of the time aside; 0 when there is none
	stalled bool          // set aside for being silent, so a sign of life ends it
	held    bool          // what follows is in effect, and not beyond the half that may be
	ramp    int           // requests at once in slow start; 0 when there is none
	base    int           // what was in flight when the slow start began, and does not count for it
	good    int           // requests that went well since the ramp was raised last
}

func (s *standing) bad() bool { return s.until > 0 || s.ramp > 0 }

// aside tells whether picks pass over the endpoint.
func (s *standing) aside() bool { return s.held && s.ramp == 0 }

// judge takes the outcome of a lease into account. The clean case, an endpoint
// without trouble that did well, takes no lock.
func (r *Router) judge(l *Lease, o *Outcome, now time.Duration) {
	t := l.tally
	switch {
	case o.Aside > 0:
		r.blame(l, o.Aside, now)
	case !o.failed():
		if o.Status != 0 {
			r.praise(l, now)
		}
	case o.Remote:
		busy := o.Err == nil && (o.Status == 429 || o.Status == 503) && t.load() > 0
		if !busy {
			r.blame(l, 0, now)
		}
	}
}

// Progress says that the first content of a response has arrived. It is a sign
// of life that comes long before the end, and says that the prompt is computed.
func (l *Lease) Progress() {
	if l.tally == nil {
		return
	}
	now := l.router.clock()
	l.computed(now)
	if l.router.eject != nil {
		l.router.praise(l, now)
	}
}

// Stalled says that nothing has come for a request for so long that the
// endpoint may hang. If nothing has come for any other of the requests either,
// since this one was sent, the endpoint is set aside until something does, or
// until its time is over. The lease stays as it is.
func (l *Lease) Stalled() {
	if l.tally == nil || l.router.eject == nil || l.tally.progress.Load() > int64(l.since) {
		return
	}
	r := l.router
	r.mu.Lock()
	defer r.unlock()
	if s := &l.tally.standing; s.until == 0 {
		r.setAside(l.tally, 0, r.clock())
		s.stalled = true
	}
}

// praise counts a request that went well.
func (r *Router) praise(l *Lease, now time.Duration) {
	t := l.tally
	t.progress.Store(int64(now))
	if !t.trouble.Load() {
		return
	}
	r.mu.Lock()
	defer r.unlock()
	s := &t.standing
	switch {
	case s.stalled && s.until > 0:
		*s = standing{} // it was only slow
		r.publish()
	case s.ramp > 0:
		if s.good++; s.good < s.ramp {
			return
		}
		if s.good, s.ramp = 0, 2*s.ramp; s.ramp > fullRamp {
			*s = standing{}
		}
		r.publish()
	case s.until == 0:
		s.fails = 0
	}
	t.trouble.Store(s.bad())
}

// blame counts a request that failed; aside is how long the endpoint asked to
// be left alone, 0 if it did not.
func (r *Router) blame(l *Lease, aside time.Duration, now time.Duration) {
	r.mu.Lock()
	defer r.unlock()
	s := &l.tally.standing
	switch {
	case s.until > 0:
		if until := now + min(aside, r.eject.MaxTime); until > s.until {
			s.until = until
			r.publish()
		}
	case s.ramp > 0 && l.since < s.begun:
		// It was sent before the verdict, so it says nothing new.
	case s.ramp > 0 || aside > 0:
		r.setAside(l.tally, aside, now)
	default:
		l.tally.trouble.Store(true)
		if s.fails++; s.fails >= r.eject.Failures {
			r.setAside(l.tally, 0, now)
		}
	}
}

// setAside begins the endpoint's time aside: as long as it asked for, if it did.
// The caller holds the lock.
func (r *Router) setAside(t *tally, asked time.Duration, now time.Duration) {
	d, times := asked, t.standing.times
	if asked <= 0 {
		d = r.eject.MaxTime
		if times < 16 { // beyond, the shift could overflow
			d = min(d, r.eject.Time<<times)
		}
		times++
	}
	d = min(d, r.eject.MaxTime)
	t.standing = standing{times: times, begun: now, until: now + d}
	t.trouble.Store(true)
	t.ejections.Add(1)
	r.publish()
}

// tick ends the times aside that are over. It is called by every pick, and
// costs an atomic load as long as none is.
func (r *Router) tick(now time.Duration) {
	if next := r.nextTick.Load(); next == 0 || int64(now) < next {
		return
	}
	r.mu.Lock()
	defer r.unlock()
	for _, t := range r.tallies {
		s := &t.standing
		if s.until == 0 || now < s.until {
			continue
		}
		if !s.held { // it was never without requests
			*s = standing{}
			t.trouble.Store(false)
			continue
		}
		*s = standing{times: s.times, begun: now, ramp: 1, base: int(t.load())}
	}
	r.publish()
}

// hold returns the endpoints as picks are to see them: those that are set
// aside are unavailable, those in slow start have a limit. The caller holds the
// lock.
func (r *Router) hold(endpoints []Endpoint) []Endpoint {
	if r.eject == nil {
		return endpoints
	}
	var bad []*tally
	var next time.Duration
	for i := range endpoints {
		t := r.tallies[endpoints[i].ID]
		s := &t.standing
		s.held = false
		if s.bad() {
			bad = append(bad, t)
		}
		if s.until > 0 && (next == 0 || s.until < next) {
			next = s.until
		}
	}
	r.nextTick.Store(int64(next))
	if len(bad) == 0 || len(bad) == len(endpoints) {
		return endpoints
	}
	// Those that have been bad for longest stay held, so that one more does
	// not let another in.
	slices.SortStableFunc(bad, func(a, b *tally) int { return cmp.Compare(a.standing.begun, b.standing.begun) })
	for _, t := range bad[:min(len(bad), len(endpoints)/2)] {
		t.standing.held = true
	}
	seen := slices.Clone(endpoints)
	for i := range seen {
		e := &seen[i]
		switch s := &r.tallies[e.ID].standing; {
		case !s.held:
		case s.ramp > 0:
			if limit := s.base + s.ramp; e.Limit == 0 && (r.limit == 0 || limit < r.limit) || limit < e.Limit {
				e.Limit = limit
			}
		default:
			e.Unavailable = true
		}
	}
	return seen
}

// publish makes the snapshot that picks see. The caller holds the lock.
func (r *Router) publish() {
	snap := newSnapshot(r.hold(r.members), r.tallies, r.limit, r.snap.Load(), r.lot)
	snap.sent = r.sent
	r.snap.Store(snap)
	if r.onAside == nil {
		return
	}
	for i := range r.members {
		t := r.tallies[r.members[i].ID]
		aside := t.standing.aside()
		if aside == t.told {
			continue
		}
		t.told = aside
		if aside {
			r.news = append(r.news, news{t.id, max(t.standing.until-r.clock(), 1)})
		} else {
			r.news = append(r.news, news{id: t.id})
		}
	}
}

// news is what [Options.OnAside] is to be told.
type news struct {
	id  string
	out time.Duration
}

// unlock releases the lock and tells the news, which must not be told under it:
// whoever hears them may write a log.
func (r *Router) unlock() {
	all := r.news
	r.news = nil
	r.mu.Unlock()
	for _, n := range all {
		r.onAside(n.id, n.out)
	}
}

// Untried reports whether an available endpoint that could serve req has not
// been tried by it.
func (r *Router) Untried(req *Request) bool {
	if req.Sticky != "" {
		return false
	}
	g, err := r.snap.Load().group(req.Model)
	return err == nil && untried(g.up, req.Tried)
}
