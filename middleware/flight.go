package middleware

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/discovery"
)

// A flight is one attempt on its way: its lease, its time limits, and what is
// known of its outcome. It lands exactly once, whatever happens first: the
// body's end, a failure, Close, or the end of the caller's context.
type flight struct {
	route    *route
	call     *call
	lease    affinity.Lease
	endpoint discovery.Endpoint
	caller   context.Context
	ctx      context.Context // the caller's, ended by a time limit too
	cancel   context.CancelCauseFunc
	release  context.CancelFunc // of the total time limit
	stop     func() bool        // of the watch on the caller's context
	sent     time.Time
	first    time.Duration // from sent to the first content
	status   int
	landed   atomic.Bool
	alive    atomic.Bool // something of a body has arrived
	reported atomic.Bool
	// replayable is whether the request may be sent again after it was sent.
	replayable bool
	plain      bool        // nothing says that a stream is wanted; see unasked
	mu         sync.Mutex  // Close may come while another goroutine reads
	watch      *time.Timer // runs out when the endpoint is too slow
	cause      error       // what watch cancels with
	silence    *time.Timer // runs out when the endpoint may hang
	use        usage
	failure    error         // what it landed with
	aside      time.Duration // what the endpoint asked for, set before it lands
}

func newFlight(ctx context.Context, r *route, c *call, lease affinity.Lease, ep discovery.Endpoint) *flight {
	c.attempts++
	c.tried = append(c.tried, ep.ID)
	f := &flight{route: r, call: c, lease: lease, endpoint: ep, caller: ctx, sent: time.Now(), use: noUsage}
	c.flight = f
	f.ctx = ctx
	if !c.deadline.IsZero() {
		f.ctx, f.release = context.WithDeadlineCause(ctx, c.deadline, ErrTotalTimeout)
	}
	f.ctx, f.cancel = context.WithCancelCause(f.ctx)
	d := &c.done
	r.Flights.add(f)
	reason := f.lease.Reason()
	d.Endpoint, d.Strategy = ep.ID, string(c.want.Strategy)
	d.Reason, d.Overflow = reason.String(), reason.Overflow()
	return f
}

// announce tells the traces where the attempt goes; they may add to h, which it
// is sent with.
func (f *flight) announce(h http.Header) {
	d := &f.call.done
	for _, t := range f.call.traces {
		if t.Picked != nil {
			t.Picked(Picked{Attempt: f.call.attempts, Endpoint: f.endpoint.ID, Home: f.lease.Home(),
				Strategy: d.Strategy, Reason: d.Reason, Overflow: d.Overflow,
				API: f.call.api, Model: f.call.prompt.Model, URL: f.endpoint.URL, SetHeader: h.Set})
		}
	}
}

// expectStream starts the limits for the first content of a stream.
func (f *flight) expectStream() {
	f.expect(f.route.FirstByte, ErrFirstByteTimeout)
	if f.route.Stall > 0 {
		f.silence = time.AfterFunc(f.route.Stall, f.lease.Stalled)
	}
}

// expect starts the time limit for what comes next; zero means none.
func (f *flight) expect(limit time.Duration, cause error) {
	if limit <= 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil && f.cause == cause {
		f.watch.Reset(limit)
		return
	}
	if f.watch != nil {
		f.watch.Stop()
	}
	f.cause = cause
	f.watch = time.AfterFunc(limit, func() { f.cancel(cause) })
}

// relax stops the time limit.
func (f *flight) relax() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil {
		f.watch.Stop()
	}
}

// land releases the lease, once, and reports whether this was the time. The
// connection is left alone, so that the rest of a body can be drained.
func (f *flight) land(err error) bool {
	if !f.landed.CompareAndSwap(false, true) {
		return false
	}
	f.route.Flights.remove(f)
	f.mu.Lock()
	if err == nil {
		f.use = f.route.tellers.complete(f.endpoint.ID, f.call.api, f.use)
	}
	use := f.use
	f.failure = err
	f.mu.Unlock()
	if f.silence != nil {
		f.silence.Stop()
	}
	rest := f.aside
	if err != nil {
		rest = aside(nil, 0, err)
	}
	f.lease.Release(affinity.Outcome{
		Status: f.status, Err: err, Remote: f.caller.Err() == nil && answerable(f.status, err),
		PromptTokens: use.prompt, CachedTokens: use.cached,
		FirstByte: f.first, Total: time.Since(f.sent), Aside: rest, Boundaries: f.call.want.Boundaries,
	})
	f.route.queue.room()
	return true
}

// close lets go of everything that the attempt holds.
func (f *flight) close() {
	f.relax()
	if f.stop != nil {
		f.stop()
	}
	f.cancel(errClosed)
	if f.release != nil {
		f.release()
	}
}

// read reads from a body under the idle time limit.
func (f *flight) read(body io.Reader, p []byte) (int, error) {
	f.expect(f.route.Idle, ErrIdleTimeout)
	n, err := body.Read(p)
	if n > 0 {
		f.alive.Store(true)
	}
	f.relax()
	return n, err
}

// fail lands a flight whose response the caller has nothing of, and returns
// the error of the attempt.
func (f *flight) fail(phase Phase, err error) *Error {
	e := &Error{Phase: phase, Endpoint: f.endpoint.ID, Attempts: f.call.attempts, Err: f.reason(err)}
	alive := f.caller.Err() == nil && !errors.Is(e.Err, ErrTotalTimeout)
	e.retryable, e.lost = alive && f.replayable && !otherKind(e.Err), connectionLost(e.Err)
	if errors.As(e.Err, new(requestFault)) {
		e.Phase, e.retryable, e.lost = PhasePrepare, false, false
	} else if alive && beforeSending(err) {
		e.Phase, e.retryable, e.lost = PhaseConnect, true, false
		if connectTimedOut(err) {
			e.Err = errors.Join(ErrConnectTimeout, err)
		}
		if f.route.ConnectFailed != nil {
			f.route.ConnectFailed(f.endpoint.ID)
		}
	}
	f.land(e)
	f.close()
	return e
}

// interrupt ends a flight whose response the caller has part of.
func (f *flight) interrupt(err error, delivered int64) *Error {
	e := &Error{Phase: PhaseBody, Endpoint: f.endpoint.ID, Attempts: f.call.attempts,
		Delivered: delivered, Err: f.reason(err)}
	f.complete(e)
	f.close()
	return e
}

// reason finds what really ended an attempt: the caller, a time limit, or err.
func (f *flight) reason(err error) error {
	if f.caller.Err() != nil {
		return f.caller.Err()
	}
	if cause := context.Cause(f.ctx); cause != nil {
		return cause
	}
	return err
}

// describe tells the caller by header where its response is from.
func (f *flight) describe(h http.Header) {
	all := []string{f.endpoint.ID, PlacementToken(f.endpoint.ID), f.call.done.Strategy, strconv.Itoa(f.call.attempts)}
	for i, name := range [...]string{HeaderEndpoint, HeaderPlacement, HeaderStrategy, HeaderAttempts} {
		h[name] = all[i : i+1 : i+1] // as Set does, in one piece
	}
	h.Del(HeaderOverflow)
	if f.call.done.Overflow {
		h.Set(HeaderOverflow, f.call.done.Reason)
	}
}

// arrived notes the first content of a stream.
func (f *flight) arrived() {
	f.alive.Store(true)
	f.lease.Progress()
	if f.silence != nil {
		f.silence.Stop()
	}
	now := time.Now()
	f.first = now.Sub(f.sent)
	f.call.done.FirstByte = now.Sub(f.call.start)
	for _, t := range f.call.traces {
		if t.FirstByte != nil {
			t.FirstByte(FirstByte{Endpoint: f.endpoint.ID, Elapsed: f.call.done.FirstByte, SinceAttempt: f.first})
		}
	}
}

// answer is called when the caller gets a body that is still coming. A caller
// may drop a stream without closing it; the end of its context is then the
// only sign that it is over.
func (f *flight) answer() {
	f.stop = context.AfterFunc(f.caller, func() { f.complete(f.caller.Err()) })
}

// complete lands a flight whose response is the call's answer, and reports
// the call, once. What it has landed with already stands.
func (f *flight) complete(err error) {
	f.land(err)
	if !f.reported.CompareAndSwap(false, true) {
		return
	}
	f.mu.Lock()
	if err == nil {
		err = f.failure
	}
	d := &f.call.done
	d.PromptTokens, d.CachedTokens, d.CompletionTokens = f.use.prompt, f.use.cached, f.use.completion
	f.mu.Unlock()
	f.call.report(f.status, err)
}

func (f *flight) setUsage(u usage) {
	f.mu.Lock()
	f.use = u
	f.mu.Unlock()
}
