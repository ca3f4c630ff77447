package middleware

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
)

// A queue is where calls wait while every endpoint is at its limit. Each lease
// that ends rings the bell of the first in line; one that has no use for the
// room (it wants another model) passes it on.
type queue struct {
	length atomic.Int64
	mu     sync.Mutex
	line   list.List // of chan struct{}
}

// recheck is how often a waiting call looks for itself: room also comes about
// by a change of the fleet, which rings no bell.
const recheck = 250 * time.Millisecond

// pick repeats pick until it finds room, the limit is over, or ctx ends.
func (q *queue) pick(ctx context.Context, limit time.Duration, pick func() (affinity.Lease, error)) (affinity.Lease, error) {
	bell := make(chan struct{}, 1)
	place := q.join(bell)
	defer q.leave(place)
	end, again := time.NewTimer(limit), time.NewTicker(recheck)
	defer end.Stop()
	defer again.Stop()
	for {
		lease, err := pick()
		if !errors.Is(err, affinity.ErrOverLimit) {
			return lease, err
		}
		select {
		case <-bell:
			if lease, err := pick(); !errors.Is(err, affinity.ErrOverLimit) {
				return lease, err
			}
			q.ring(place)
		case <-again.C:
		case <-end.C:
			return affinity.Lease{}, err
		case <-ctx.Done():
			return affinity.Lease{}, context.Cause(ctx)
		}
	}
}

func (q *queue) join(bell chan struct{}) *list.Element {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.length.Add(1)
	return q.line.PushBack(bell)
}

// leave takes a call out of the line. A bell that it has not answered goes to
// the next.
func (q *queue) leave(place *list.Element) {
	select {
	case <-place.Value.(chan struct{}):
		q.ring(place)
	default:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.length.Add(-1)
	q.line.Remove(place)
}

// room says that a lease has ended.
func (q *queue) room() {
	if q.length.Load() > 0 {
		q.ring(nil)
	}
}

// ring rings for the one behind place, or for the first in line.
func (q *queue) ring(place *list.Element) {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := q.line.Front()
	if place != nil {
		next = place.Next()
	}
	for ; next != nil; next = next.Next() {
		select {
		case next.Value.(chan struct{}) <- struct{}{}:
			return
		default: // it has one already
		}
	}
}
