package affinity

import (
	"sync/atomic"
	"time"
)

// Lease is one request's place in flight on one endpoint. It is a value that
// may be moved until it is first used; from then on pass a pointer, since a
// copy could be released a second time. The zero Lease belongs to no endpoint,
// and releasing it does nothing.
//
// All methods may be called from any goroutine.
type Lease struct {
	router *Router
	tally  *tally
	home   *tally
	since  time.Duration
	done   uint32 // a plain word: a Lease may be moved before its first use
	begun  uint32 // likewise: the prompt is computed, or will never be
	reason Reason
	plan   plan
}

// Endpoint returns the ID of the endpoint that serves the request.
func (l *Lease) Endpoint() string {
	if l.tally == nil {
		return ""
	}
	return l.tally.id
}

// Home returns the ID of the endpoint that hashing prefers among those that
// serve the model and do not drain, available or not. It is "" when there is
// none: the strategy does not hash, the request has no key, or it is sticky.
func (l *Lease) Home() string {
	if l.home == nil {
		return ""
	}
	return l.home.id
}

// Reason says why this endpoint was picked.
func (l *Lease) Reason() Reason { return l.reason }

// Outcome is how a request ended.
type Outcome struct {
	// Status is the HTTP status, 0 when there was no response.
	Status int
	// Err is what went wrong, nil when nothing did.
	Err error
	// PromptTokens and CachedTokens are what the engine reported, -1 when it
	// did not.
	PromptTokens, CachedTokens int
	// FirstByte and Total are the times from sending to the first content and
	// to the end; 0 means unknown.
	FirstByte, Total time.Duration
	// Aside is for how long the endpoint is to get nothing new, because it
	// asked for that or is shutting down; 0 means that it is not known to want
	// that. It needs [Options.Ejection].
	Aside time.Duration
	// Boundaries are the request's. When the endpoint has refused it, could not be
	// reached or was not asked (no Status, Err or tokens), it is no longer taken
	// to have what it did not have before this request and has not served to others
	// since. Nil leaves that to the next response's CachedTokens.
	Boundaries []Boundary
	// Remote says that the endpoint or the way to it is answerable for the
	// outcome: a local cancellation is not remote.
	Remote bool
}

func (o *Outcome) failed() bool { return o.Err != nil || o.Status >= 400 }

// refused tells whether the endpoint has computed nothing, as far as is known. A
// redirect is a refusal too, and who tells of tokens has computed them.
func (o *Outcome) refused() bool {
	return o.FirstByte == 0 && o.PromptTokens <= 0 &&
		(o.Status >= 300 || o.Status == 0 && (o.Err == nil || o.Remote))
}

// Release ends the lease: the endpoint has one request less in flight. Only
// the first call counts; it reports whether this was it. Release it when the
// response body has ended in whatever way, not when the headers are there: it
// is the body that keeps an engine busy.
func (l *Lease) Release(o Outcome) bool {
	if l.tally == nil || !atomic.CompareAndSwapUint32(&l.done, 0, 1) {
		return false
	}
	// The count falls first, so that nothing that follows can keep the place.
	l.tally.inFlight.Add(-1)
	now := l.router.clock()
	l.computed(now)
	l.router.released(l, &o, now)
	return true
}

// computed ends what was booked for the prompt, once.
func (l *Lease) computed(now time.Duration) {
	if l.plan.planned && atomic.CompareAndSwapUint32(&l.begun, 0, 1) {
		l.tally.bookings.done(now, l.tally.others(now))
	}
}

// Released is a finished lease, for [Options.OnRelease].
type Released struct {
	Endpoint, Home string
	Reason         Reason
	Held           time.Duration // from pick to release
	Outcome        Outcome
}

// released is the one place where an outcome arrives.
func (r *Router) released(l *Lease, o *Outcome, now time.Duration) {
	held := now - l.since
	r.learn(l, o)
	t := l.tally
	t.released.Add(1)
	t.held.Add(int64(held))
	if o.Remote && o.failed() {
		t.failed.Add(1)
	}
	if o.PromptTokens > 0 && o.CachedTokens >= 0 {
		t.prompt.Add(uint64(o.PromptTokens))
		t.cached.Add(uint64(o.CachedTokens))
		if p := &l.plan; p.bytes > 0 {
			t.foreseen.Add(uint64(int64(o.PromptTokens) * int64(p.have) / int64(p.bytes)))
			t.foreseenOf.Add(uint64(o.PromptTokens))
		}
	}
	if r.eject != nil {
		r.judge(l, o, now)
	}
	if r.onRelease != nil {
		r.onRelease(Released{Endpoint: l.Endpoint(), Home: l.Home(), Reason: l.reason, Held: held, Outcome: *o})
	}
}
