package affinity

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// awayFromHome returns a request's home among es and another of the endpoints,
// the last of its order.
func awayFromHome(req Request, es []Endpoint) (home, away string) {
	_, key := req.Keys()
	ids := Order(key, es)
	return ids[0], ids[len(ids)-1]
}

func TestLastTurnsEndpointGetsTheNext(t *testing.T) {
	es := fleet(8)
	for c := uint64(1); c <= 50; c++ {
		q := turn(c, 4, 3)
		home, away := awayFromHome(q, es)
		for last, want := range map[string]Reason{away: ReasonCarried, home: ReasonHome} {
			r := newRouter(t, Options{}, es...) // has sent nothing yet
			r.later.add(1, 1)
			r.strangers.add(1, 1) // so leaving home would cost the next turn its cache
			q.Last = last
			l := pick(t, r, q)
			require.Equal(t, last, l.Endpoint())
			require.Equal(t, home, l.Home())
			require.Equal(t, want, l.Reason())
			require.False(t, l.Reason().Overflow())
			require.Equal(t, .5, r.strangers.or(1), "it is known who served the last turn")
			require.Equal(t, 1.0, r.later.or(0))
			l.Release(outcomeGood)
			require.Equal(t, last, pick(t, r, q).Endpoint(), "the home is not trusted to have what is elsewhere")
		}
	}
}

// What the endpoint of the last turn is taken to hold, when the boundaries do
// not tell how far that turn went.
func TestCarriedDepth(t *testing.T) {
	q := turn(1, 4, 3)
	require.Equal(t, 24_000, carried(&q, 0, 8000))
	q.Previous = 9
	require.Equal(t, 32_000, carried(&q, 0, 8000), "more than there are means all")
	q.Previous = 0
	require.Equal(t, 16_000, carried(&q, 1, 8000), "the head at least")
	require.Equal(t, 24_000, carried(&q, 1, 24_000), "as far as anybody has it")
	q.Boundaries = nil
	require.Equal(t, math.MaxInt, carried(&q, -1, 0), "nothing is known: all")
}

func TestLastTurnsEndpointIsLeftForAGain(t *testing.T) {
	now := time.Unix(0, 0)
	es := fleet(8)
	r := newRouter(t, Options{Now: func() time.Time { return now }}, es...)
	q := turn(1, 4, 3)
	home, away := awayFromHome(q, es)
	q.Last = away
	for _, step := range []Gauges{
		{Running: 1, PrefixQueries: 1, FirstTokens: 1, PromptTokens: 1},
		{Running: 1, PrefixQueries: 1000, FirstTokens: 2, PromptTokens: 1000},
		{Running: 1, PrefixQueries: 1000, FirstTokens: 2, PromptTokens: 1000},
	} {
		now = now.Add(time.Second)
		for _, e := range es {
			g := step
			if e.ID == away && g.FirstTokens > 1 {
				g.Waiting = 40
			}
			r.Observe(e.ID, g)
		}
	}
	l := pick(t, r, q)
	require.Equal(t, home, l.Endpoint(), "40 waiting cost more than 24,000 bytes")
	require.Equal(t, ReasonHome, l.Reason())
}

func TestWithoutPricesTheBoundDecides(t *testing.T) {
	es := fleet(4)
	for _, root := range []uint64{0, 5} { // without a key and with one
		r := newRouter(t, Options{Floor: 3}, es...)
		q := Request{Root: root}
		home, away := "", es[0].ID
		if root != 0 {
			home, away = awayFromHome(q, es)
		}
		q.Last = away
		for range 3 {
			l := pick(t, r, q)
			require.Equal(t, away, l.Endpoint())
			require.Equal(t, ReasonCarried, l.Reason())
			require.Equal(t, home, l.Home())
		}
		l := pick(t, r, q)
		require.NotEqual(t, away, l.Endpoint(), "three are the floor")
		require.NotEqual(t, ReasonCarried, l.Reason())
	}
}

// A last endpoint that cannot take the request changes nothing, under any
// strategy; nor does any endpoint under a strategy that does not ask for it.
func TestUnusableLastIsIgnored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := fleet(5)
		es[1].Unavailable, es[2].Draining, es[3].Limit, es[4].Models = true, true, 1, []string{"other"}
		strategy := rapid.SampledFrom(strategies).Draw(t, "strategy")
		lasts := []string{"gone", es[1].ID, es[2].ID, es[3].ID, es[4].ID}
		if strategy != Affinity {
			lasts = append(lasts, es[0].ID)
		}
		now := time.Unix(0, 0)
		var with, without *Router
		for _, r := range []**Router{&with, &without} {
			var err error
			*r, err = New(Options{Strategy: strategy, Seed: 1, Now: func() time.Time { return now }})
			require.NoError(t, err)
			require.NoError(t, (*r).Set(es))
			_, err = (*r).Pick(&Request{Sticky: es[3].ID}) // now it is full
			require.NoError(t, err)
		}
		for range rapid.IntRange(1, 20).Draw(t, "picks") {
			q := turn(rapid.Uint64Range(0, 4).Draw(t, "conversation"), rapid.IntRange(0, 4).Draw(t, "boundaries"), rapid.IntRange(0, 3).Draw(t, "previous"))
			q.Model, q.Prefix = "m", q.Root
			if rapid.Bool().Draw(t, "tried") {
				q.Tried = []string{es[0].ID}
				lasts = append(lasts[:5:5], es[0].ID)
			}
			want, err := without.Pick(&q)
			require.NoError(t, err)
			q.Last = rapid.SampledFrom(lasts).Draw(t, "last")
			got, err := with.Pick(&q)
			require.NoError(t, err)
			require.Equal(t, want.Endpoint(), got.Endpoint())
			require.Equal(t, want.Home(), got.Home())
			require.Equal(t, want.Reason(), got.Reason())
			require.Equal(t, without.strangers.or(-1), with.strangers.or(-1))
			lasts = lasts[:5]
			if strategy != Affinity {
				lasts = append(lasts, es[0].ID)
			}
			now = now.Add(time.Second)
		}
	})
}

// However busy the fleet, a pick never goes to the last turn's endpoint beyond
// its limit, nor to one that was tried while another is left.
func TestLastKeepsToLimitsAndTries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := fleet(3)
		r, err := New(Options{Seed: 1, Limit: 2, OverLimit: OverLimitRefuse})
		require.NoError(t, err)
		require.NoError(t, r.Set(es))
		if rapid.Bool().Draw(t, "gauges") {
			for _, e := range es {
				r.Observe(e.ID, Gauges{Running: 1, CacheTokens: 100_000})
			}
		}
		inFlight := map[string]int{}
		for range 10 {
			q := turn(rapid.Uint64Range(1, 3).Draw(t, "conversation"), rapid.IntRange(0, 4).Draw(t, "boundaries"), rapid.IntRange(0, 4).Draw(t, "previous"))
			q.Last = es[rapid.IntRange(0, 2).Draw(t, "last")].ID
			if rapid.Bool().Draw(t, "tried") {
				q.Tried = []string{q.Last}
			}
			l, err := r.Pick(&q)
			if err != nil {
				require.ErrorIs(t, err, ErrOverLimit)
				continue
			}
			inFlight[l.Endpoint()]++
			require.LessOrEqual(t, inFlight[l.Endpoint()], 2)
			require.NotContains(t, q.Tried, l.Endpoint())
		}
	})
}
