package affinity

import "sync/atomic"

// A tally counts what one endpoint, known by its ID, has from this router. It
// outlives the endpoint's membership: leases hold on to it, and an endpoint
// that comes back finds its own again. Nothing ever resets a tally: "fixing" a
// count while leases are out is how counts go wrong.
type tally struct {
	id     string
	number uint16 // a short name for the index of prefixes, another one after each restart; guarded by Router.mu
	// The padding keeps the counters of two endpoints off one cache line, so
	// that picks of different endpoints do not slow each other down. 64 bytes
	// is the line of amd64 and of most arm64. What a pick reads of each endpoint
	// that it considers fills the first line after it, together with the eight
	// bytes that Go's allocator puts before an object of this size.
	_        [32]byte
	inFlight atomic.Int64
	bookings bookings
	reading  atomic.Pointer[reading] // nil before the first one

	released atomic.Uint64
	failed   atomic.Uint64
	away     atomic.Uint64
	held     atomic.Int64 // nanoseconds
	prompt   atomic.Uint64
	cached   atomic.Uint64
	// Of requests that Affinity has picked for: the tokens that it expected to
	// be cached, and all.
	foreseen, foreseenOf atomic.Uint64
	picks                [reasonCount]atomic.Uint64
	// For ejection: the last sign of life by the clock, whether standing
	// is worth a look, and how often the endpoint was set aside.
	progress  atomic.Int64
	trouble   atomic.Bool
	ejections atomic.Uint64
	_         [64]byte

	gauging gauging // guarded by Router.mu

	left     uint64 // the generation in which the endpoint left, 0 while it is a member; guarded by Router.mu
	standing standing
	told     bool // the last news of OnAside: that it is set aside; guarded by Router.mu
}

// acquire counts one more in flight, unless that would exceed the limit; 0
// means none. Of concurrent callers as many succeed as there is room for.
func (t *tally) acquire(limit int64) bool {
	if limit <= 0 {
		t.inFlight.Add(1)
		return true
	}
	for {
		n := t.inFlight.Load()
		if n >= limit {
			return false
		}
		if t.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (t *tally) load() int64 { return t.inFlight.Load() }
