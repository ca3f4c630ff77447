package affinity

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpeedFindsThePaceUnderWaits(t *testing.T) {
	want := pace{token: 3e-5, pair: 5e-10}
	var s speed
	require.Equal(t, defaultPace, s.pace())
	lots := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		cached, computed := float64(lots.IntN(20000)), float64(300+lots.IntN(20000))
		seconds := want.prefill(cached, cached+computed)
		if lots.IntN(4) == 0 {
			seconds += lots.Float64() * 2 // a wait that nobody told of
		}
		s.learn(cached, computed, seconds)
	}
	for _, prompt := range []float64{1000, 10000, 30000} {
		require.InEpsilon(t, want.prefill(0, prompt), s.pace().prefill(0, prompt), .1)
	}
}

func TestBookings(t *testing.T) {
	var b bookings
	now := 10 * time.Second
	b.add(now-time.Second, .25)
	b.add(now-200*time.Millisecond, .5)
	b.add(now, .125)
	require.InDelta(t, .425, b.queued(now), 1e-6, "the first has run down, .3 of the second is left")
	require.InDelta(t, .025, b.queued(now+400*time.Millisecond), 1e-6)
	require.Zero(t, b.queued(now+time.Second))
	b.correct(now, 1)
	require.InDelta(t, 1.625, b.queued(now), 1e-6, "the reading does not show the last two")
	b.add(now+500*time.Millisecond, .25)
	require.InDelta(t, 1.375, b.queued(now+500*time.Millisecond), 1e-6)
	b.correct(now+time.Second, 0)
	require.Zero(t, b.queued(now+time.Second), "the engine was faster")
	b.add(now+1500*time.Millisecond, .5)
	require.InDelta(t, .5, b.queued(now+1500*time.Millisecond), 1e-6, "what was not used of the time before is lost")
}

// TestWait: an endpoint at which nothing of this router's is left to compute has
// only others' work before it, however much was booked.
func TestWait(t *testing.T) {
	now := 10 * time.Second
	var e tally
	e.bookings.add(now, 2)
	require.InDelta(t, 2, e.wait(now), 1e-6)
	e.reading.Store(&reading{until: now + gaugesValid, free: now + time.Second})
	e.bookings.correct(now, 1)
	require.InDelta(t, 3, e.wait(now), 1e-6)
	e.bookings.done(now, e.others(now))
	require.InDelta(t, 1, e.wait(now), 1e-6)
	require.InDelta(t, .75, e.wait(now+250*time.Millisecond), 1e-6)
	require.Zero(t, e.wait(now+gaugesValid+1), "the reading is too old")
	e.bookings.add(now+250*time.Millisecond, .5)
	require.InDelta(t, 1.25, e.wait(now+250*time.Millisecond), 1e-6, "nothing is left of what was booked before")
	e.bookings.add(now+250*time.Millisecond, 2)
	e.bookings.done(now+250*time.Millisecond, .75)
	require.InDelta(t, 3.25, e.wait(now+250*time.Millisecond), 1e-6, "one is not done")
}

// An engine ten times as fast as is assumed, of which no gauges are known: what
// it has long done keeps nobody away, whether the answers are complete or have
// just begun, and whether they came to anything.
func TestBookingsEndWithTheirRequests(t *testing.T) {
	for name, end := range map[string]func(*Lease){
		"answered": func(l *Lease) { l.Release(outcomeGood) },
		"refused":  func(l *Lease) { l.Release(Outcome{Status: 503, Remote: true}) },
		"begun":    func(l *Lease) { l.Progress(); l.Progress() },
	} {
		now := time.Unix(0, 0)
		r := newRouter(t, Options{Now: func() time.Time { return now }}, fleet(2)...)
		home := ""
		for c := uint64(1); c <= 3; c++ {
			q := turn(c, 50, 0) // 100,000 tokens
			q.Session = "of them all"
			l := pick(t, r, q)
			home = l.Home()
			require.Equal(t, home, l.Endpoint(), name)
			now = now.Add(time.Second)
			end(l)
			require.Zero(t, l.tally.wait(r.clock()), name)
			require.Zero(t, l.tally.bookings.open.Load(), name)
		}
		pick(t, r, Request{Sticky: home})
		q := turn(9, 1, 0)
		q.Session = "of them all"
		l := pick(t, r, q)
		require.Equal(t, home, l.Endpoint(), name)
		q = turn(1, 51, 50)
		q.Session = "of them all"
		next := pick(t, r, q)
		require.Equal(t, home, next.Endpoint(), name)
		require.InDelta(t, .2, next.plan.wait, 1e-6, "behind 2,000 tokens")
		l.Release(outcomeGood)
		next.Release(outcomeGood)
		require.Zero(t, l.tally.bookings.open.Load(), name)
	}
}

// However requests meet, none stays counted as being computed.
func TestBookingsMeet(t *testing.T) {
	var b bookings
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				b.add(0, 1)
				b.done(0, 0)
			}
		})
	}
	wg.Wait()
	require.Zero(t, b.open.Load())
}

func TestIndex(t *testing.T) {
	x := newIndex(1 << 20)
	require.Zero(t, x.line(7).get(7))
	x.line(7).put(7, 0, time.Second)
	x.line(7).put(7, 3, time.Second)
	x.line(7).put(7, 0, time.Second)
	require.Equal(t, joined(joined(0, 0, 0), 3, 0), x.line(7).get(7))
	for e := range uint16(5) {
		x.line(7).put(7, 10+e, time.Second)
	}
	require.Equal(t, everywhere, x.line(7).get(7))
	x.line(7).put(7, 1, time.Second)
	require.Equal(t, everywhere, x.line(7).get(7))
	x.line(7).only(7, 1)
	require.Equal(t, joined(0, 1, served), x.line(7).get(7))
}

func TestIndexKeepsWhatWasUsedLast(t *testing.T) {
	x := newIndex(64 << 10) // 4,096 entries
	for i := range uint64(100_000) {
		x.line(mix(i)).put(mix(i), 1, time.Duration(i)*time.Second)
	}
	kept := 0
	for i := uint64(99_000); i < 100_000; i++ {
		if x.line(mix(i)).get(mix(i)) != 0 {
			kept++
		}
	}
	require.Greater(t, kept, 900, "of the last thousand")
	require.Len(t, x.lines, 1024, "and no more memory")
}

// What is kept of a prompt is found again in the next turn, since what follows
// a boundary does not change, and it is never much.
func TestTrail(t *testing.T) {
	var all []Boundary
	at := 0
	kept := map[uint32]bool{}
	for i := range 300 {
		at += 1 + int(mix(uint64(i))%5000)
		all = append(all, Boundary{Hash: uint64(i), Bytes: at})
		var now trail
		now.follow(all, -1, 0, 0)
		got := map[uint32]bool{}
		for _, n := range now.at[:now.n] {
			got[n.boundary] = true
		}
		for b := range kept {
			require.True(t, got[b], "%d of %d", b, i)
		}
		require.True(t, got[uint32(i)], "the end")
		delete(got, uint32(i)) // may be behind a mark or not: that is known when more follows
		kept = got
		require.LessOrEqual(t, now.n, 80)
	}
	var with trail
	for previous := 1; previous <= 300; previous++ {
		with.follow(all, 7, 0, previous)
		places := map[uint32]bool{}
		for i, n := range with.at[:with.n] {
			places[n.boundary] = true
			if i != with.only {
				require.True(t, n.boundary == 7 || n.boundary > 7 && kept[n.boundary] || n.boundary == 299)
			}
		}
		require.True(t, places[7], "the head")
		require.True(t, places[uint32(previous-1)], "the end of the last turn")
	}
	for i := range all {
		all[i].Bytes = 1 << (i % 63) // nonsense
	}
	with.follow(all, -1, 0, 299)
	require.Equal(t, maxTrail, with.n, "no more than there is room for")
}

func TestSpread(t *testing.T) {
	var h heads
	for head := uint64(1); head <= 52; head++ {
		for range 4 {
			h.note(head, 8000)
		}
	}
	h.sweep()
	hits := h.note(1, 8000)
	require.Equal(t, 7, h.spread(hits, 7, 0, false), "unknown memory")
	require.Equal(t, 7, h.spread(hits, 7, 7e6, false), "room for all everywhere")
	require.Equal(t, 1, h.spread(hits, 7, 7*110_000, false))
	require.Equal(t, 2, h.spread(hits, 7, 7*170_000, false))
	for range 100 {
		hits = h.note(1, 8000)
	}
	h.sweep()
	require.Equal(t, 4, h.spread(hits, 7, 7*110_000, false), "a head with a third of the requests needs a third of the endpoints")

	// Where the head is most of the prompt, a copy needs eight requests.
	var docs heads
	uses := func(n int) (hits uint32) {
		for range n {
			hits = docs.note(uint64(n), 8000)
		}
		return hits
	}
	for n, want := range map[int]int{1: 1, 15: 1, 17: 2, 33: 4, 65: 8} {
		require.Equal(t, want, docs.spread(uses(n), 8, 0, true), "%d requests", n)
	}
	require.Equal(t, 8, docs.spread(uses(10), 8, 0, false))
	docs.sweep()
	few := docs.note(100, 8000)
	docs.hits.Store(uint64(few))
	require.Equal(t, 1, docs.spread(few, 8, 0, true), "one request is no demand, be it all there is")
	require.Equal(t, 1, docs.spread(0, 8, 0, true), "not counted")
	require.Equal(t, 8, docs.spread(0, 8, 0, false), "not counted")
}

func TestHeadsForget(t *testing.T) {
	var h heads
	h.note(1, 8000)
	for range 4000 {
		h.note(2, 100)
	}
	h.sweep()
	require.EqualValues(t, 100, h.tokens.Load())
	for range 6 {
		h.count.Store(headWindow)
		h.sweep()
	}
	require.NotZero(t, h.note(1, 8000))
}

func TestPrices(t *testing.T) {
	idle := newPrices(nil, 1, 0, 1, 1)
	require.Equal(t, awayMargin, idle.away)
	require.InDelta(t, 3, idle.cost(2, 1, 1, 0), 1e-9)
	require.InDelta(t, 5, idle.cost(2, 1, 2, 0), 1e-9, "one above the mean")
	require.Equal(t, idle.cost(2, 1, 3, 0), idle.cost(2, 1, 9, 0))
	busy := newPrices(&outlook{rate: .5, busy: .5}, 1, .5, 1, 1)
	require.InDelta(t, 2+1*(1+2*3), busy.cost(2, 1, 1, 0), 1e-9)
	require.InDelta(t, awayMargin+4*.5*1*3, busy.away, 1e-9)
}

func TestHandsOnTheSameKeys(t *testing.T) {
	for i := range uint64(1000) {
		lot := mix(i)
		require.False(t, handsOn(1, lot))
		if handsOn(1.5, lot) {
			require.True(t, handsOn(2, lot), "more inflow hands on more keys, not others")
		}
	}
}

func TestCandidatesAreTheFirstOfTheOrder(t *testing.T) {
	for n := range 12 {
		for _, change := range []func([]Endpoint){func([]Endpoint) {}, weighted} {
			es := fleet(n + 1)
			change(es)
			g := newRouter(t, Options{}, es...).snap.Load().any
			for key := range uint64(100) {
				var o order
				o.fill(g, g.all, 0, mix(key), len(g.all))
				require.Equal(t, min(maxOrder, len(es)), o.n)
				for i, id := range Order(key, es)[:o.n] {
					require.Equal(t, id, o.slots[i].tally.id, "place %d of %d", i, len(es))
				}
			}
		}
	}
}

// Where a head may live on few, those come first, in the conversation's order, and
// then the next in the head's.
func TestCandidatesWhereAHeadMayLiveOnFew(t *testing.T) {
	for n := 2; n <= 12; n++ {
		for _, change := range []func([]Endpoint){func([]Endpoint) {}, weighted} {
			es := fleet(n)
			change(es)
			g := newRouter(t, Options{}, es...).snap.Load().any
			for key := range uint64(20) {
				root, head := Order(key, es), Order(key+1e6, es)
				for spread := 1; spread < n; spread++ {
					want := slices.DeleteFunc(slices.Clone(root), func(id string) bool { return !slices.Contains(head[:spread], id) })
					want = append(want, head[spread:]...)[:min(maxOrder, n)]
					var few order
					few.fill(g, g.all, mix(key+1e6), mix(key), spread)
					var got []string
					for _, s := range few.slots[:few.n] {
						got = append(got, s.tally.id)
					}
					require.Equal(t, want, got, "%d of %d", spread, n)
				}
			}
		}
	}
}

// More endpoints than a head is ever spread over, some of them unavailable.
func TestManyEndpointsOfWhichSomeAreUnavailable(t *testing.T) {
	es := fleet(maxSpread + 8)
	for i := range 5 {
		es[i].Unavailable = true
	}
	now := time.Unix(0, 0)
	r := newRouter(t, Options{Now: func() time.Time { return now }}, es...)
	observe := func() {
		for _, e := range es {
			r.Observe(e.ID, Gauges{Running: 1, CacheTokens: 1000})
		}
	}
	observe()
	for c := uint64(1); c <= 200; c++ {
		q := turn(c, 3, 2)
		q.Head = q.Boundaries[0].Hash // one for each, so that not all fit everywhere
		_, key := q.Keys()
		l := pick(t, r, q)
		if c < 100 {
			require.Equal(t, Order(key, es)[0], l.Home(), "all may have the head")
		}
		require.NotContains(t, []string{es[0].ID, es[1].ID, es[2].ID, es[3].ID, es[4].ID}, l.Endpoint())
		l.Release(outcomeGood)
		if c == 100 {
			now = now.Add(2 * sweepEvery)
			observe()
		}
	}
}

func TestForeseenTokens(t *testing.T) {
	r := newRouter(t, Options{}, fleet(1)...)
	req := Request{Root: 1, Boundaries: []Boundary{{Hash: 1, Bytes: 3000}, {Hash: 2, Bytes: 4000}}}
	send := func(req Request) {
		lease := pick(t, r, req)
		lease.Release(Outcome{Status: 200, PromptTokens: 1000, CachedTokens: 10})
	}
	send(req) // nothing is expected of the first
	req.Boundaries[1].Hash = 3
	send(req)
	req.Strategy = RoundRobin
	send(req) // expects nothing in particular
	var got EndpointStats
	for _, e := range r.Stats() {
		got.ForeseenTokens += e.ForeseenTokens
		got.ForeseenOf += e.ForeseenOf
		got.PromptTokens += e.PromptTokens
	}
	require.EqualValues(t, 2000, got.ForeseenOf)
	require.EqualValues(t, 3000, got.PromptTokens)
	require.EqualValues(t, 750, got.ForeseenTokens, "three quarters of the second")
}

// What is only assumed, so that a head comes to live at home, is neither foreseen
// nor, when home proves not to have it, a reason to forget who has.
func TestWhatIsAssumedIsNotForeseen(t *testing.T) {
	es := fleet(4)
	r := newRouter(t, Options{}, es...)
	heads := map[string]int{}
	for c := uint64(1); c <= 40; c++ {
		q := Request{Head: 7, Root: mix(c), Boundaries: []Boundary{{Hash: 7, Bytes: 40_000}, {Hash: mix(c), Bytes: 40_200}}}
		l := pick(t, r, q)
		require.Equal(t, ReasonHome, l.Reason())
		cached := 0
		if heads[l.Endpoint()] > 0 {
			cached = 10_000
		}
		heads[l.Endpoint()]++
		l.Release(Outcome{Status: 200, PromptTokens: 10_050, CachedTokens: cached})
	}
	require.Greater(t, len(heads), 1)
	who := r.snap.Load().sent().line(7).get(7)
	for i, e := range es {
		n := heads[e.ID]
		if n == 0 {
			continue
		}
		require.EqualValues(t, (n-1)*10_000, stats(t, r, e.ID).ForeseenTokens, "of all but the first")
		require.Equal(t, who, joined(who, uint16(i), 0), "it still counts as having the head")
	}
}

// Images are tokens without bytes, so more may be carried than there is prompt.
func TestForeseenIsNeverNegative(t *testing.T) {
	es := fleet(1)
	r := newRouter(t, Options{}, es...)
	q := turn(1, 1, 0)
	q.Last = es[0].ID
	require.Equal(t, math.MaxInt, carried(&q, -1, 0))
	pick(t, r, q).Release(Outcome{Status: 200, PromptTokens: 3000, CachedTokens: 2000})
	require.EqualValues(t, 3000, stats(t, r, es[0].ID).ForeseenTokens)
}

func TestAverage(t *testing.T) {
	var a average
	require.Equal(t, 7.0, a.or(7))
	a.add(0, 4)
	require.Zero(t, a.or(7), "a mean of 0 is known")
	a.add(3, 4)
	a.add(6, 4)
	a.add(-1, 4)
	require.InDelta(t, 2, a.or(7), 1e-9, "the plain mean of the first four")
	for range 1000 {
		a.add(6, 4)
	}
	require.InDelta(t, 6, a.or(7), 1e-9)
	a.add(2, 4)
	require.InDelta(t, 5, a.or(7), 1e-9, "a quarter")
}

// Nobody sees a first value that is counted and not yet there.
func TestAverageIsNeverHalfThere(t *testing.T) {
	for range 3000 {
		var a average
		var wg sync.WaitGroup
		got, reading := 7.0, make(chan bool)
		wg.Go(func() {
			close(reading)
			for got == 7 {
				got = a.or(7)
			}
		})
		<-reading
		a.add(2, 4)
		wg.Wait()
		require.Equal(t, 2.0, got)
	}
}

// An engine that claims a queue without end has the longest wait, not none.
func TestQueueWithoutEnd(t *testing.T) {
	now := time.Unix(0, 0)
	r := newRouter(t, Options{Now: func() time.Time { return now }}, fleet(2)...)
	id := fleet(2)[0].ID
	for i := range uint64(4) {
		now = now.Add(time.Second)
		r.Observe(id, Gauges{Waiting: 1<<31 - 1, PrefixQueries: i << 40, PromptTokens: i << 40, FirstTokens: i})
	}
	require.InDelta(t, maxWait, r.tallies[id].wait(r.clock()), 1)
}
