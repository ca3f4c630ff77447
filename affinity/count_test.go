package affinity

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReleaseCountsOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	var ended []Released
	r := newRouter(t, Options{Now: func() time.Time { return now }, OnRelease: func(e Released) { ended = append(ended, e) }}, Endpoint{ID: "a"})
	lease := pick(t, r, Request{Root: 1})
	now = now.Add(3 * time.Second)
	require.True(t, lease.Release(Outcome{Status: 200, PromptTokens: 100, CachedTokens: 80}))
	now = now.Add(time.Hour)
	require.False(t, lease.Release(Outcome{Status: 500, Remote: true, PromptTokens: 1, CachedTokens: 1}))

	failed := Outcome{Err: errors.New("reset"), Remote: true, PromptTokens: -1, CachedTokens: -1}
	pick(t, r, Request{}).Release(failed)
	pick(t, r, Request{}).Release(Outcome{Err: errors.New("the caller gave up"), PromptTokens: 50, CachedTokens: -1})
	require.Equal(t, []EndpointStats{{
		ID: "a", Member: true, Picks: 3, Share: 1, Released: 3, Failed: 1, Held: 3 * time.Second,
		Reasons:      map[Reason]uint64{ReasonHome: 1, ReasonLeastLoaded: 2},
		PromptTokens: 100, CachedTokens: 80,
	}}, r.Stats())
	require.Len(t, ended, 3)
	require.Equal(t, Released{Endpoint: "a", Home: "a", Reason: ReasonHome, Held: 3 * time.Second,
		Outcome: Outcome{Status: 200, PromptTokens: 100, CachedTokens: 80}}, ended[0])
	require.Equal(t, failed, ended[1].Outcome)

	var zero Lease
	require.False(t, zero.Release(Outcome{}))
	require.Empty(t, zero.Endpoint()+zero.Home())
	require.Equal(t, ReasonNone, zero.Reason())
}

// meet returns when so many have arrived in all, to each of them at nearly the
// same instant: it spins, and yields only if others need the processor.
func meet(arrived *atomic.Int32, all int) {
	arrived.Add(1)
	for spin := 1; arrived.Load() < int32(all); spin++ {
		if spin%1000 == 0 {
			runtime.Gosched()
		}
	}
}

func TestReleaseFromManyGoroutinesCountsOnce(t *testing.T) {
	r := newRouter(t, Options{}, Endpoint{ID: "a"})
	const rounds, goroutines = 5000, 2
	leases := make([]Lease, rounds)
	for i := range leases {
		leases[i], _ = r.Pick(&Request{})
	}
	// The goroutines meet at each lease, so that they release it together.
	var wg sync.WaitGroup
	var first, arrived atomic.Int32
	for range goroutines {
		wg.Go(func() {
			for i := range leases {
				meet(&arrived, goroutines*(i+1))
				if leases[i].Release(Outcome{}) {
					first.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, rounds, first.Load())
	require.Zero(t, stats(t, r, "a").InFlight)
}

// An endpoint that leaves and comes back while requests are in flight keeps
// them in its count, and their release falls on that count: otherwise it would
// come back with 0 and go negative (llm-d/llm-d#1950).
func TestFlapKeepsTheCount(t *testing.T) {
	r := newRouter(t, Options{}, Endpoint{ID: "a"}, Endpoint{ID: "b"})
	lease := pick(t, r, Request{Sticky: "a"})
	require.NoError(t, r.Set([]Endpoint{{ID: "b"}}))
	require.Equal(t, EndpointStats{ID: "a", InFlight: 1, Picks: 1, Share: 1, Reasons: map[Reason]uint64{ReasonSticky: 1}}, stats(t, r, "a"))
	require.NoError(t, r.Set([]Endpoint{{ID: "a"}, {ID: "b"}}))
	require.Equal(t, 1, stats(t, r, "a").InFlight)
	require.Len(t, r.Stats(), 2, "it is listed once, as a member")
	second := pick(t, r, Request{Sticky: "a"})
	require.Equal(t, 2, stats(t, r, "a").InFlight)
	lease.Release(Outcome{})
	second.Release(Outcome{})
	require.Zero(t, stats(t, r, "a").InFlight)
	require.EqualValues(t, 2, stats(t, r, "a").Released)
	require.NoError(t, r.Set(nil))
	require.Empty(t, r.Stats(), "nothing in flight on what has left")
}

func TestDepartedAreForgotten(t *testing.T) {
	r := newRouter(t, Options{})
	require.NoError(t, r.Set([]Endpoint{{ID: "busy"}}))
	lease := pick(t, r, Request{})
	const pods = maxDeparted + 100
	for i := range pods {
		require.NoError(t, r.Set([]Endpoint{{ID: fmt.Sprint("pod-", i)}}))
	}
	require.Len(t, r.tallies, maxDeparted+1)
	require.Contains(t, r.tallies, fmt.Sprint("pod-", pods-2), "the latest to leave are kept")
	require.NotContains(t, r.tallies, "pod-0")
	require.Equal(t, 1, stats(t, r, "busy").InFlight, "and whatever is in use")
	require.NoError(t, r.Set([]Endpoint{{ID: "busy"}}))
	lease.Release(Outcome{})
	require.Zero(t, stats(t, r, "busy").InFlight)
}

// 10,000 requests with random outcomes while endpoints come, go, drain, fail
// and strategies change: no count is ever negative, and all end at zero.
func TestCountsReturnToZero(t *testing.T) {
	const workers, requests = 8, 1250
	es := fleet(6)
	r := newRouter(t, Options{Limit: 5}, es...)
	stop := make(chan struct{})
	var churn, work sync.WaitGroup
	churn.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for {
			select {
			case <-stop:
				return
			default:
			}
			var set []Endpoint
			for _, e := range es {
				if rng.IntN(4) > 0 {
					e.Draining, e.Unavailable = rng.IntN(6) == 0, rng.IntN(4) == 0
					set = append(set, e)
				}
			}
			if err := r.Set(set); err != nil {
				t.Error(err)
			}
			if err := r.SetStrategy(strategies[rng.IntN(len(strategies))]); err != nil {
				t.Error(err)
			}
			for _, s := range r.Stats() {
				if s.InFlight < 0 {
					t.Errorf("%s has %d in flight", s.ID, s.InFlight)
				}
			}
		}
	})
	var picked atomic.Uint64
	for w := range workers {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(w)))
			var out []*Lease
			for range requests {
				req := turn(rng.Uint64N(40), rng.IntN(5), rng.IntN(4)) // without boundaries Affinity is BoundedLoad
				req.Prefix, req.Last = rng.Uint64N(40), es[rng.IntN(6)].ID
				req.Tried = []string{es[rng.IntN(6)].ID}[:rng.IntN(2)]
				if rng.IntN(20) == 0 {
					req.Sticky = es[rng.IntN(6)].ID
				}
				if lease, err := r.Pick(&req); err == nil {
					picked.Add(1)
					out = append(out, &lease)
				} else if !errors.Is(err, ErrNoEndpoints) && !errors.Is(err, ErrStickyGone) {
					t.Error(err)
				}
				for len(out) > rng.IntN(8) {
					i := rng.IntN(len(out))
					out[i].Release(Outcome{Status: 200 + 300*rng.IntN(2), Remote: true})
					if rng.IntN(3) == 0 { // a doubled release, as when EOF and Close both end it
						out[i].Release(Outcome{})
					}
					out[i] = out[len(out)-1]
					out = out[:len(out)-1]
				}
			}
			for _, l := range out {
				l.Release(Outcome{})
			}
		})
	}
	work.Wait()
	close(stop)
	churn.Wait()
	require.NoError(t, r.Set(es))
	var picks, released uint64
	for _, s := range r.Stats() {
		require.Zero(t, s.InFlight, s.ID)
		picks += s.Picks
		released += s.Released
	}
	require.Equal(t, picked.Load(), picks)
	require.Equal(t, picks, released)
}

func TestConcurrentPicksNeverOvershootTheLimit(t *testing.T) {
	for _, priced := range []bool{false, true} {
		for _, strategy := range strategies {
			if priced && strategy != Affinity {
				continue // they take no notice of the prompt
			}
			t.Run(fmt.Sprintf("%s/priced=%v", strategy, priced), func(t *testing.T) { overshoot(t, strategy, priced) })
		}
	}
}

func overshoot(t *testing.T, strategy Strategy, priced bool) {
	es := fleet(4)
	es[0].Limit, es[1].Limit, es[2].Limit, es[3].Limit = 1, 2, 3, 0
	r := newRouter(t, Options{Strategy: strategy, Limit: 4, OverLimit: OverLimitRefuse}, es...)
	if priced {
		for _, e := range es {
			r.Observe(e.ID, Gauges{Running: 1, CacheTokens: 100_000})
		}
	}
	limits := map[string]int64{es[0].ID: 1, es[1].ID: 2, es[2].ID: 3, es[3].ID: 4}
	out := map[string]*atomic.Int64{}
	for id := range limits {
		out[id] = new(atomic.Int64)
	}
	var wg sync.WaitGroup
	var refused, served atomic.Int64
	for w := range 16 {
		wg.Go(func() {
			for i := range 400 {
				q := Request{Root: uint64(w*400+i) % 5}
				if priced {
					q = turn(q.Root, 4, i%4)
					q.Last = es[i%4].ID
				}
				q.Prefix = uint64(i % 5)
				lease, err := r.Pick(&q)
				if err != nil {
					if !errors.Is(err, ErrOverLimit) {
						t.Error(err)
					}
					refused.Add(1)
					continue
				}
				served.Add(1)
				id := lease.Endpoint()
				if n := out[id].Add(1); n > limits[id] {
					t.Errorf("%s: %d in flight on %s, whose limit is %d", strategy, n, id, limits[id])
				}
				for range i % 3 { // let others in between
					_, _ = r.Pick(&Request{Sticky: "nowhere"})
				}
				out[id].Add(-1)
				lease.Release(Outcome{})
			}
		})
	}
	wg.Wait()
	require.Positive(t, served.Load())
	// Fill up for certain, so that refusal is tested however the goroutines ran.
	for range 10 {
		pick(t, r, Request{})
	}
	_, err := r.Pick(&Request{})
	require.ErrorIs(t, err, ErrOverLimit)
	for _, s := range r.Stats() {
		require.EqualValues(t, limits[s.ID], s.InFlight, "every place is taken")
	}
}

func TestAcquireUnderContention(t *testing.T) {
	// One place and as many that want it as run at once, meeting at each round.
	var shared tally
	const rounds, goroutines = 5000, 2
	var wg sync.WaitGroup
	var got, arrived atomic.Int32
	for range goroutines {
		wg.Go(func() {
			for i := range rounds {
				meet(&arrived, goroutines*(2*i+1))
				mine := shared.acquire(1)
				if mine {
					got.Add(1)
				}
				meet(&arrived, goroutines*(2*i+2))
				if mine {
					shared.inFlight.Add(-1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, rounds, got.Load(), "one of them has the place, never both")
	require.Zero(t, shared.load())
}

// Two picks at the same instant, for the one place that is left: one of them
// gets it, under every strategy.
func TestPicksOfTheSameInstant(t *testing.T) {
	for _, priced := range []bool{false, true} {
		for _, strategy := range strategies {
			if priced && strategy != Affinity {
				continue // they take no notice of the prompt
			}
			r := newRouter(t, Options{Strategy: strategy, Limit: 1, OverLimit: OverLimitRefuse}, fleet(1)...)
			const rounds, goroutines = 500, 2
			var wg sync.WaitGroup
			var got, arrived atomic.Int32
			for range goroutines {
				wg.Go(func() {
					q := Request{Root: 1}
					if priced {
						q = turn(1, 30, 20) // takes a while
					}
					q.Prefix = 1
					for i := range rounds {
						meet(&arrived, goroutines*(2*i+1))
						lease, err := r.Pick(&q)
						if err == nil {
							got.Add(1)
						}
						meet(&arrived, goroutines*(2*i+2))
						lease.Release(Outcome{})
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, rounds, got.Load(), "%s, priced %v", strategy, priced)
			require.Zero(t, stats(t, r, fleet(1)[0].ID).InFlight)
		}
	}
}

// A model of the router with plain maps says what the counts must be after
// each of a random series of steps.
func TestCountsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, err := New(Options{Limit: 3, Seed: 1})
		require.NoError(t, err)
		all := fleet(4)
		members := map[string]bool{}
		inFlight, picks := map[string]int{}, map[string]uint64{}
		var out []*Lease
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				var set []Endpoint
				clear(members)
				for _, e := range all {
					if rapid.Bool().Draw(t, "member") {
						e.Unavailable = rapid.Bool().Draw(t, "unavailable")
						set = append(set, e)
						members[e.ID] = true
					}
				}
				require.NoError(t, r.Set(set))
			},
			"strategy": func(t *rapid.T) {
				require.NoError(t, r.SetStrategy(rapid.SampledFrom(strategies).Draw(t, "strategy")))
			},
			"pick": func(t *rapid.T) {
				req := turn(rapid.Uint64Range(0, 9).Draw(t, "root"), rapid.IntRange(0, 3).Draw(t, "boundaries"), rapid.IntRange(0, 3).Draw(t, "previous"))
				req.Last = rapid.SampledFrom(all).Draw(t, "last").ID
				lease, err := r.Pick(&req)
				if len(members) == 0 {
					require.ErrorIs(t, err, ErrNoEndpoints)
					return
				}
				require.NoError(t, err)
				require.True(t, members[lease.Endpoint()])
				inFlight[lease.Endpoint()]++
				picks[lease.Endpoint()]++
				if inFlight[lease.Endpoint()] > 3 {
					require.Equal(t, ReasonOverLimit, lease.Reason())
				}
				out = append(out, &lease)
			},
			"release": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing in flight")
				}
				l := out[rapid.IntRange(0, len(out)-1).Draw(t, "lease")]
				if l.Release(Outcome{}) {
					inFlight[l.Endpoint()]--
				}
			},
			"": func(t *rapid.T) {
				listed := map[string]bool{}
				for _, s := range r.Stats() {
					listed[s.ID] = true
					require.Equal(t, inFlight[s.ID], s.InFlight)
					require.Equal(t, picks[s.ID], s.Picks)
					require.Equal(t, picks[s.ID]-uint64(inFlight[s.ID]), s.Released)
				}
				for _, e := range all {
					require.Equal(t, members[e.ID] || inFlight[e.ID] > 0, listed[e.ID])
				}
			},
		})
	})
}

// What a pick reads of an endpoint lies on one cache line of 64 bytes.
func TestPickReadsOneLineOfATally(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("the padding counts on pointers of 64 bits")
	}
	r := newRouter(t, Options{}, fleet(20)...)
	for _, x := range r.tallies {
		first, last := uintptr(unsafe.Pointer(&x.inFlight)), uintptr(unsafe.Pointer(&x.reading))+unsafe.Sizeof(x.reading)-1
		require.Equal(t, first/64, last/64, "%d to %d", first%64, last%64)
	}
}
