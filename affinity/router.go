package affinity

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// OverLimit says what to do when every eligible endpoint is at its hard limit.
type OverLimit uint8

const (
	// OverLimitExceed picks the least loaded one beyond its limit: the request
	// then queues in the engine. The default, since an engine's own queue is
	// no worse a place to wait than the caller's.
	OverLimitExceed OverLimit = iota
	// OverLimitRefuse returns [ErrOverLimit].
	OverLimitRefuse
)

// Options configure a [Router]. The zero value works.
type Options struct {
	// Strategy picks the endpoints; "" means [Affinity].
	Strategy Strategy
	// Floor is, for [BoundedLoad], the number of requests in flight below which a
	// home is never left because of load; 0 means 8. The relative bound alone mistakes
	// chance for overload where few requests are in flight per endpoint: with
	// 1 to 32 clients sharing an even load of 32 an endpoint, it finds a home
	// overloaded in 7 to 26 % of cases, with 8 requests of slack in 0.4 % at
	// most (Poisson tails); kubeai#519 and verl#6533 report the damage. 1
	// means no floor.
	Floor int
	// LoadFactor bounds, for [BoundedLoad], what a home may have in flight to this multiple of the
	// mean over the available eligible endpoints (of its share by weight); 0
	// means 1.25, the least allowed is 1. The rule is consistent hashing with
	// bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2016), 1.25 the factor
	// that KubeAI and others run with.
	LoadFactor float64
	// IndexBytes bounds the memory for what was sent where, which the strategy
	// Affinity keeps; 0 means 32 MiB, enough for 80,000 conversations. It is
	// taken when the first request needs it.
	IndexBytes int
	// FixedPrefix configures the strategy of that name.
	FixedPrefix FixedPrefixOptions
	// Limit is the hard limit of requests in flight for endpoints without one
	// of their own; 0 means none. Every strategy keeps to it.
	Limit int
	// OverLimit says what happens when every eligible endpoint is at its
	// limit; the zero value picks the least loaded all the same.
	OverLimit OverLimit
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Seed makes random choices repeatable, for tests and simulations; 0 draws
	// a seed.
	Seed uint64
	// Ejection says when an endpoint that fails is set aside; nil means never.
	Ejection *Ejection
	// OnRelease is called once for each lease that ends, after it is counted,
	// by the goroutine that released it: it must not block. Nil means nothing
	// is called.
	OnRelease func(Released)
	// OnAside is called when an endpoint is set aside, with the time for
	// which, and when it gets requests again, with 0. It runs in the goroutine
	// that brought that about, so it must not block; news that follow close
	// upon each other may come in another order. Nil means nothing is called.
	OnAside func(endpoint string, d time.Duration)
}

// defaultFloor and defaultLoadFactor have their origins at the fields above.
const (
	defaultFloor      = 8
	defaultLoadFactor = 1.25
)

// loadFraction is the number of bits after the point of the load factor, which
// is kept in fixed point so that bounds are exact.
const loadFraction = 16

// Router picks endpoints and counts what is in flight. It is safe for
// concurrent use; make one with [New].
type Router struct {
	floor     int64
	factor    uint64 // with loadFraction bits after the point
	prefix    FixedPrefixOptions
	limit     int
	refuse    bool
	clock     func() time.Duration // since the router was made
	onRelease func(Released)
	onAside   func(endpoint string, d time.Duration)
	eject     *Ejection // nil: never

	snap     atomic.Pointer[snapshot]
	strategy atomic.Pointer[Strategy]
	lots     atomic.Uint64 // state of the random sequence
	nextTick atomic.Int64  // when the next time aside ends, by the clock; 0: none

	// What the strategy Affinity has learned, and what it sees.
	heads      *heads
	outlook    atomic.Pointer[outlook]
	speed      speed
	later      average // 1 for a later turn of a conversation, 0 for a first one
	strangers  average // of later turns: 1 if this router did not send the last one
	firstToken average // seconds
	density    average // tokens of prompt per byte
	prompts    average // tokens of a prompt

	mu         sync.Mutex // held by Set, Observe and Stats, and by a pick that ends a time aside
	swept      time.Duration
	numbers    uint16        // given to endpoints so far, since sent was made
	sent       func() *index // for the snapshots to come
	indexBytes int
	tallies    map[string]*tally
	members    []Endpoint
	generation uint64
	news       []news
}

// New returns a router without endpoints; give it some with [Router.Set]. It
// refuses options that make no sense with an error that says what to write
// instead.
func New(o Options) (*Router, error) {
	switch {
	case o.Floor < 0:
		return nil, fmt.Errorf("affinity: Floor is %d; use 0 for the default of %d, or 1 for no floor", o.Floor, defaultFloor)
	case o.LoadFactor != 0 && !(o.LoadFactor >= 1 && o.LoadFactor <= 1024):
		return nil, fmt.Errorf("affinity: LoadFactor is %v; use 0 for the default of %v, or a number from 1 to 1024", o.LoadFactor, defaultLoadFactor)
	case o.Limit < 0:
		return nil, fmt.Errorf("affinity: Limit is %d; use 0 for no limit, or at least 1", o.Limit)
	case int64(o.Limit) > math.MaxInt32:
		return nil, fmt.Errorf("affinity: Limit is %d; use 0 for no limit, or at most %d", o.Limit, math.MaxInt32)
	case o.IndexBytes < 0:
		return nil, fmt.Errorf("affinity: IndexBytes is %d; use 0 for the default of 32 MiB, or a number of bytes", o.IndexBytes)
	case int64(o.IndexBytes) > maxIndexBytes:
		return nil, fmt.Errorf("affinity: IndexBytes is %d; use 0 for the default of 32 MiB, or at most 64 GiB", o.IndexBytes)
	case o.OverLimit > OverLimitRefuse:
		return nil, fmt.Errorf("affinity: OverLimit is %d; use OverLimitExceed or OverLimitRefuse", o.OverLimit)
	}
	if err := o.FixedPrefix.validate(); err != nil {
		return nil, err
	}
	r := &Router{
		floor: defaultFloor, factor: uint64(defaultLoadFactor * (1 << loadFraction)),
		prefix: o.FixedPrefix, limit: o.Limit, refuse: o.OverLimit == OverLimitRefuse,
		onRelease: o.OnRelease, onAside: o.OnAside,
		tallies: map[string]*tally{},
	}
	if o.Ejection != nil {
		eject := *o.Ejection
		if err := eject.validate(); err != nil {
			return nil, err
		}
		r.eject = &eject
	}
	if o.Floor > 0 {
		r.floor = int64(o.Floor)
	}
	if o.LoadFactor > 0 {
		r.factor = uint64(math.Ceil(o.LoadFactor * (1 << loadFraction)))
	}
	if o.Now == nil {
		start := time.Now()
		r.clock = func() time.Duration { return time.Since(start) } // half the price of Now
	} else {
		start := o.Now()
		r.clock = func() time.Duration { return o.Now().Sub(start) }
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	r.lots.Store(o.Seed)
	r.heads = new(heads)
	r.indexBytes = cmp.Or(o.IndexBytes, defaultIndexBytes)
	r.startIndex()
	if o.Strategy == "" {
		o.Strategy = Affinity
	}
	if err := r.SetStrategy(o.Strategy); err != nil {
		return nil, err
	}
	r.snap.Store(newSnapshot(nil, nil, 0, nil, r.lot))
	return r, nil
}

// SetStrategy switches the strategy for the picks to come. Leases that are out
// and all counts stay as they are. The error lists the valid strategies.
func (r *Router) SetStrategy(s Strategy) error {
	s, err := ParseStrategy(string(s))
	if err != nil {
		return err
	}
	r.strategy.Store(&s)
	return nil
}

// Strategy returns the strategy in use.
func (r *Router) Strategy() Strategy { return *r.strategy.Load() }

// Set replaces the whole set of endpoints; an empty set is allowed. An endpoint
// that stays, or leaves and comes back, keeps its counts; leases on one that
// left stay valid. A set with a mistake in it is refused whole, with an error
// that says what to write instead, and the old one stays.
func (r *Router) Set(endpoints []Endpoint) error {
	if err := validate(endpoints); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.unlock()
	r.generation++
	r.members = slices.Clone(endpoints)
	present := make(map[string]bool, len(endpoints))
	for _, e := range endpoints {
		present[e.ID] = true
		if r.tallies[e.ID] == nil {
			r.tallies[e.ID] = &tally{id: e.ID, number: r.nextNumber()}
		}
		r.tallies[e.ID].left = 0
	}
	r.forget(present)
	r.publish()
	return nil
}

// startIndex begins an index in which no endpoint has a number. A pick that still
// sees an older snapshot keeps to the one of that, where its numbers mean what it
// takes them for.
func (r *Router) startIndex() {
	r.numbers = 0
	r.sent = sync.OnceValue(func() *index { return newIndex(r.indexBytes) })
}

// nextNumber returns a number under which the index knows nothing. When all are
// given out, most of them to endpoints long gone, the index begins anew. The
// caller holds the lock and publishes.
func (r *Router) nextNumber() uint16 {
	if r.numbers == maxNumber {
		r.startIndex()
		for _, t := range r.tallies {
			t.number = r.numbers
			r.numbers = (r.numbers + 1) % maxNumber
		}
	}
	r.numbers++
	return r.numbers - 1
}

// maxDeparted bounds the tallies that are kept for endpoints that left: pods
// that never come back under their old address must not pile up for ever.
// 1,024 is a fleet of 256 replaced four times over.
const maxDeparted = 1024

// forget drops the tallies of the endpoints that left longest ago, but none
// that still has requests in flight. The caller holds the lock.
func (r *Router) forget(present map[string]bool) {
	var departed []*tally
	for id, t := range r.tallies {
		if present[id] {
			continue
		}
		if t.left == 0 {
			t.left = r.generation
		}
		departed = append(departed, t)
	}
	excess := len(departed) - maxDeparted
	if excess <= 0 {
		return
	}
	slices.SortFunc(departed, func(a, b *tally) int { return int(int64(a.left) - int64(b.left)) })
	for _, t := range departed {
		if excess > 0 && t.load() == 0 {
			delete(r.tallies, t.id)
			excess--
		}
	}
}

// lot draws the next number of the router's random sequence (SplitMix64: a
// counter stepped by 2^64 over the golden ratio, mixed).
func (r *Router) lot() uint64 { return mix(r.lots.Add(0x9e3779b97f4a7c15)) }
