package discovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is what Ready returns after Close.
var ErrClosed = errors.New("discovery: the watcher is closed")

// A Watcher keeps the set of members up to date until it is closed. It is safe for
// concurrent use.
type Watcher struct {
	settings
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	slots  chan struct{} // bounds how many probes start at once
	wake   chan struct{} // a new snapshot for the notifier

	current atomic.Pointer[snapshot]

	mu      sync.Mutex
	closed  bool
	sources []*source
	places  map[placeKey]*place
	changed chan struct{} // closed and replaced with each snapshot
	read    chan struct{} // closed and replaced with each reading of models
	doubles map[string]bool
}

// snapshot is one published set, immutable.
type snapshot struct {
	version uint64 // counts the changes that OnChange hears of
	members []Member
	ready   bool
}

// Watch starts to watch the resolvers. It returns at once, with fixed sets in place
// and everything else still to be asked for: DNS may be down. The error is about
// the options, or about a fixed set that is refused.
func Watch(opts Options) (*Watcher, error) {
	set, err := opts.settings()
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		settings: set,
		slots:    make(chan struct{}, probesAtOnce),
		wake:     make(chan struct{}, 1),
		places:   make(map[placeKey]*place),
		changed:  make(chan struct{}),
		read:     make(chan struct{}),
		doubles:  make(map[string]bool),
	}
	w.current.Store(&snapshot{})
	for _, r := range set.Resolvers {
		s := &source{resolver: r, kick: make(chan struct{}, 1), missing: make(map[string]int)}
		if k, ok := r.(known); ok {
			s.fixed = true
			if s.endpoints, err = w.admit(k.known()); err != nil {
				return nil, err
			}
		}
		w.sources = append(w.sources, s)
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())

	w.mu.Lock()
	w.publish()
	w.mu.Unlock()
	delivered := w.deliver(0)
	w.wg.Go(func() { w.notify(delivered) })
	for _, s := range w.sources {
		if !s.fixed {
			w.wg.Go(func() { w.resolveLoop(s) })
		}
	}
	return w, nil
}

// Members returns the current set, sorted by ID; empty while nothing was found yet.
// The slice is the caller's, what its members point to is shared.
func (w *Watcher) Members() []Member { return slices.Clone(w.current.Load().members) }

// Ready waits until a request can be expected to work: until one endpoint is
// healthy, or is known and has no health verdict to wait for (probing is off, or the
// engine has no health path). Its error is the context's, with the last failures of
// resolvers and probes in it, or ErrClosed.
func (w *Watcher) Ready(ctx context.Context) error {
	for {
		w.mu.Lock()
		changed, closed := w.changed, w.closed
		w.mu.Unlock()
		if closed {
			return ErrClosed
		}
		if w.current.Load().ready {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return w.notReady(context.Cause(ctx))
		}
	}
}

// notReady says why nothing is ready.
func (w *Watcher) notReady(cause error) error {
	var reasons []error
	w.mu.Lock()
	for _, s := range w.sources {
		if s.err != nil {
			reasons = append(reasons, s.err)
		}
	}
	w.mu.Unlock()
	members := w.current.Load().members
	for _, m := range members {
		if m.HealthErr != nil && len(reasons) < 4 { // a message, not a report
			reasons = append(reasons, fmt.Errorf("%s: %w", m.ID, m.HealthErr))
		}
	}
	what := "no endpoint is known yet"
	if len(members) > 0 {
		what = fmt.Sprintf("none of %d endpoints is ready", len(members))
	}
	if len(reasons) == 0 {
		return fmt.Errorf("discovery: %s: %w", what, cause)
	}
	return fmt.Errorf("discovery: %s: %w: %w", what, cause, errors.Join(reasons...))
}

// Refresh asks for a resolution and a reading of the models now, because a
// connection failed or a model is missing. It returns at once. Calls are rate-limited:
// each resolver and each endpoint is asked at most once a second, and a call within
// that second is honoured at its end.
func (w *Watcher) Refresh() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sources {
		poke(s.kick)
	}
	for _, p := range w.places {
		poke(p.kickModels)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close stops everything and waits until it has stopped, OnChange included. Members
// keeps answering with the last set. Close may be called more than once; the error
// is always nil. It waits for resolvers and transports to honour their contexts.
// (Inside package net, a DNS query that was given up may still be read for up to the
// timeout of resolv.conf, 5 s.)
func (w *Watcher) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.changed)
	}
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
	return nil
}

// notify calls OnChange with each new set until the watcher closes.
func (w *Watcher) notify(delivered uint64) {
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.wake:
			delivered = w.deliver(delivered)
		}
	}
}

// deliver calls OnChange if there is something newer than what was delivered.
func (w *Watcher) deliver(delivered uint64) uint64 {
	s := w.current.Load()
	if s.version == delivered {
		return delivered
	}
	if w.OnChange != nil {
		w.OnChange(slices.Clone(s.members))
	}
	return s.version
}

// wait sleeps for about d, for ever when d is negative. A kick ends it early, though
// not before a time of soon has passed since asked. It is false when ctx ended.
func wait(ctx context.Context, kick <-chan struct{}, d time.Duration, asked time.Time) bool {
	var expired <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(jitter(d))
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-expired:
		return true
	case <-kick:
	}
	t := time.NewTimer(max(0, soon-time.Since(asked)))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-expired:
	case <-t.C:
	}
	return true
}

// jitter spreads d by jitterShare in both directions.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitterShare + 2*jitterShare*rand.Float64()))
}
