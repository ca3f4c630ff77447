package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// source is one resolver and its last good answer. Its loop is the only one to call
// the resolver, so that resolutions never overlap; what other goroutines see is
// guarded by Watcher.mu.
type source struct {
	resolver Resolver
	fixed    bool
	kick     chan struct{}

	endpoints []Endpoint     // the last good set, with what is missing but not dropped yet
	missing   map[string]int // by ID: answers in a row without it
	err       error          // of the last resolution
	refused   error          // why parts of the last answer were left out
}

// resolveLoop asks again and again until the watcher closes.
func (w *Watcher) resolveLoop(s *source) {
	backoff := time.Duration(0)
	for {
		asked := time.Now()
		open, err := w.resolveOnce(s)
		if w.ctx.Err() != nil {
			return
		}
		next := w.Interval
		switch {
		case err != nil:
			// Errors must not be asked about less often than everything else: a name
			// that appears during a rollout is wanted at once (grpc-go#1795).
			limit := w.Interval
			if limit < 0 {
				limit = defaultInterval
			}
			backoff = min(limit, max(soon, time.Duration(float64(backoff)*backoffFactor)))
			next = backoff
		case open:
			backoff, next = 0, soon
			if w.Interval > 0 {
				next = min(soon, w.Interval)
			}
		default:
			backoff = 0
		}
		if !wait(w.ctx, s.kick, next, asked) {
			return
		}
	}
}

// resolveOnce asks once and publishes the result. It reports whether the answer left
// a question open: an endpoint that is missing and not yet dropped.
func (w *Watcher) resolveOnce(s *source) (open bool, err error) {
	ctx, cancel := context.WithTimeout(w.ctx, w.ResolveTimeout)
	answer, err := s.resolver.Resolve(ctx)
	cancel()
	if w.ctx.Err() != nil {
		return false, w.ctx.Err()
	}
	var refused error
	if err == nil {
		answer, refused = w.admit(answer)
		if len(answer) == 0 {
			err = refused
		}
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	was := s.err
	s.err = err
	if err != nil {
		if was == nil {
			w.Logger.Warn("discovery: resolution failed, the last good set stays", "endpoints", len(s.endpoints), "error", err)
		}
		return false, err
	}
	if was != nil {
		w.Logger.Info("discovery: resolution works again", "endpoints", len(answer))
	}
	if refused != nil && !sameText(s.refused, refused) {
		w.Logger.Warn("discovery: endpoints left out", "error", refused)
	}
	s.refused = refused
	s.endpoints, open = s.merge(answer, w.DropAfter)
	w.publish()
	return open, nil
}

// merge returns the new set after an answer: what it has, and what it lacks for the
// first few times.
func (s *source) merge(answer []Endpoint, dropAfter int) (set []Endpoint, open bool) {
	has := make(map[string]bool, len(answer))
	for _, e := range answer {
		has[e.ID] = true
		delete(s.missing, e.ID)
	}
	set = answer
	for _, e := range s.endpoints {
		if has[e.ID] {
			continue
		}
		s.missing[e.ID]++
		if s.missing[e.ID] < dropAfter {
			set = append(set, e)
			open = true
		} else {
			delete(s.missing, e.ID)
		}
	}
	return set, open
}

// admit completes the endpoints of an answer, takes each identity once, and leaves out
// those it refuses, which the error says. It never returns nothing without an error:
// an empty answer is not believed.
func (w *Watcher) admit(answer []Endpoint) ([]Endpoint, error) {
	var (
		out  = make([]Endpoint, 0, len(answer))
		seen = make(map[string]bool, len(answer))
		errs []error
	)
	for _, e := range answer {
		e, err := e.check(w.AllowLinkLocal)
		switch {
		case err != nil:
			errs = append(errs, err)
		case !seen[e.ID]:
			seen[e.ID] = true
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		return nil, cmp.Or(errors.Join(errs...), ErrNoEndpoints)
	}
	return out, errors.Join(errs...)
}

// publish makes a new snapshot of what the sources have, starts and stops probing
// accordingly, and wakes the notifier if a router could tell the difference. The
// caller holds mu.
func (w *Watcher) publish() {
	if w.closed {
		return
	}
	old := w.current.Load()
	next := &snapshot{version: old.version}
	before := make(map[string]Member, len(old.members))
	for _, m := range old.members {
		before[m.ID] = m
	}
	used := make(map[placeKey]bool, len(w.places))
	owner := make(map[string]int)
	for i, s := range w.sources {
		for _, e := range s.endpoints {
			if first, ok := owner[e.ID]; ok {
				if first != i {
					w.warnDouble(e.ID)
				}
				continue
			}
			owner[e.ID] = i
			key := keyOf(e)
			used[key] = true
			p := w.places[key]
			if p == nil {
				p = w.startPlace(key, e, before[e.ID])
			}
			next.members = append(next.members, p.member(e))
			next.ready = next.ready || p.ready(w.HealthInterval < 0)
		}
	}
	for key, p := range w.places {
		if !used[key] {
			p.cancel()
			delete(w.places, key)
		}
	}
	slices.SortFunc(next.members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	if !slices.EqualFunc(old.members, next.members, Member.equal) {
		next.version++
	}
	w.logMembership(before, next.members)
	w.current.Store(next)
	close(w.changed)
	w.changed = make(chan struct{})
	if next.version != old.version {
		poke(w.wake)
	}
}

// warnDouble says once that two resolvers found the same identity. The caller holds
// mu.
func (w *Watcher) warnDouble(id string) {
	if !w.doubles[id] {
		w.doubles[id] = true
		w.Logger.Warn("discovery: two resolvers found the same endpoint, the first wins", "endpoint", id)
	}
}

// logMembership tells who came and who left.
func (w *Watcher) logMembership(before map[string]Member, members []Member) {
	var joined, moved []string
	stayed := 0
	for _, m := range members {
		switch b, ok := before[m.ID]; {
		case !ok:
			joined = append(joined, m.ID)
			continue
		case b.Addr != m.Addr:
			moved = append(moved, m.ID)
		}
		stayed++
	}
	if len(joined) == 0 && len(moved) == 0 && stayed == len(before) {
		return
	}
	has := make(map[string]bool, len(members))
	for _, m := range members {
		has[m.ID] = true
	}
	var left []string
	for id := range before {
		if !has[id] {
			left = append(left, id)
		}
	}
	slices.Sort(left)
	w.Logger.Info("discovery: the fleet changed",
		"endpoints", len(members), "joined", brief(joined), "left", brief(left), "moved", brief(moved))
}

// brief bounds a list for the log.
func brief(ids []string) string {
	const most = 8
	if len(ids) <= most {
		return fmt.Sprint(ids)
	}
	return fmt.Sprintf("%v and %d more", ids[:most], len(ids)-most)
}
