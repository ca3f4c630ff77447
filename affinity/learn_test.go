package affinity

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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
	early := b.before(now-1100*time.Millisecond, now)
	b.add(now-200*time.Millisecond, .5)
	b.add(now, .125)
	require.EqualValues(t, 875_000, b.since(now-1100*time.Millisecond, now))
	require.InDelta(t, .875, b.after(now-1100*time.Millisecond, now, early), 1e-6)
	require.EqualValues(t, 625_000, b.since(now-300*time.Millisecond, now))
	require.InDelta(t, .425, b.queued(now), 1e-6, "the first has run down, .3 of the second is left")
	require.Zero(t, b.queued(now+time.Second))
	require.Zero(t, b.since(now+2*time.Second, now+3*time.Second), "a slot of the ring used before is another moment's")
	b.add(now+1600*time.Millisecond, .5)
	require.EqualValues(t, 500_000, b.since(now+1500*time.Millisecond, now+1600*time.Millisecond))
	require.InDelta(t, .5, b.after(now-1100*time.Millisecond, now+1600*time.Millisecond, early), 1e-6, "no farther back than the ring")
}

// What is booked after a moment is the same from the total as slot by slot.
func TestBookingsAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bookings
		var now time.Duration
		step := func(most int) {
			now += time.Duration(rapid.IntRange(0, most).Draw(t, "ms")) * time.Millisecond
			b.add(now, rapid.Float64Range(0, 2).Draw(t, "seconds"))
		}
		for range rapid.IntRange(0, 20).Draw(t, "earlier") {
			step(300)
		}
		from := now - time.Duration(rapid.IntRange(0, 400).Draw(t, "ago"))*time.Millisecond
		before := b.before(from, now)
		for range rapid.IntRange(0, 20).Draw(t, "later") {
			step(300)
			require.Equal(t, float64(b.since(from, now))/1e6, b.after(from, now, before))
		}
	})
}

func TestIndex(t *testing.T) {
	x := newIndex(1 << 20)
	require.Zero(t, x.line(7).get(7))
	x.line(7).put(7, 0, time.Second)
	x.line(7).put(7, 3, time.Second)
	x.line(7).put(7, 0, time.Second)
	require.Equal(t, joined(joined(0, 0), 3), x.line(7).get(7))
	for e := range uint16(5) {
		x.line(7).put(7, 10+e, time.Second)
	}
	require.Equal(t, everywhere, x.line(7).get(7))
	x.line(7).put(7, 1, time.Second)
	require.Equal(t, everywhere, x.line(7).get(7))
	x.line(7).only(7, 1)
	require.Equal(t, joined(0, 1), x.line(7).get(7))
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
		now.follow(all, -1, 0)
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
		with.follow(all, 7, previous)
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
	with.follow(all, -1, 299)
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
	require.Equal(t, 7, h.spread(hits, 7, 0), "unknown memory")
	require.Equal(t, 7, h.spread(hits, 7, 7e6), "room for all everywhere")
	require.Equal(t, 1, h.spread(hits, 7, 7*110_000))
	require.Equal(t, 2, h.spread(hits, 7, 7*170_000))
	for range 100 {
		hits = h.note(1, 8000)
	}
	h.sweep()
	require.Equal(t, 4, h.spread(hits, 7, 7*110_000), "a head with a third of the requests needs a third of the endpoints")
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

func TestCandidates(t *testing.T) {
	es := fleet(20)
	r := newRouter(t, Options{}, es...)
	g := r.snap.Load().any
	for key := range uint64(200) {
		root, head := mix(key), mix(key%3+1e6)
		all := candidates(g, g.all, head, root, len(g.all))
		ids := Order(key, es)
		for i := range all.n {
			require.Equal(t, ids[i], all.slots[i].tally.id)
		}
		few := candidates(g, g.all, head, root, 2)
		heads := Order(key%3+1e6, es)
		require.Contains(t, heads[:2], few.slots[0].tally.id)
		require.Contains(t, heads[:2], few.slots[1].tally.id)
		require.Equal(t, heads[2], few.slots[2].tally.id)
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
