package affinity

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// laterTurn is a turn with a head of 2,000 tokens, 4,000 of the last turn, and 6,000
// in all.
func laterTurn(conversation uint64) Request {
	q := turn(conversation, 3, 2)
	q.Head = q.Boundaries[0].Hash
	return q
}

// What a later turn finds of the last one is learned where it is expected: on the
// endpoint that this router sent the last one to, and, of another's, at home, unless
// clients have given up agreeing on homes.
func TestFoundIsLearnedWhereItIsExpected(t *testing.T) {
	for name, tt := range map[string]struct {
		own    bool    // this router sent the last turn
		before float64 // mean of one value
		tokens int     // of the prompt; 0: 6000, as the mean has it
		cached int     // tokens
		want   float64 // the next value; -1: none
	}{
		"all of it":                 {own: true, before: .5, cached: 4000, want: 1},
		"more":                      {own: true, before: .5, cached: 5900, want: 1},
		"all, of few tokens":        {own: true, before: .5, tokens: 3000, cached: 2000, want: 1},
		"half, of many tokens":      {own: true, before: .5, tokens: 12000, cached: 6000, want: .5},
		"half of it":                {own: true, before: .5, cached: 3000, want: .5},
		"the head only":             {own: true, before: .5, cached: 2000, want: 0},
		"nothing":                   {own: true, before: .5, cached: 0, want: 0},
		"not told":                  {own: true, before: .5, cached: -1, want: -1},
		"another's":                 {before: .5, cached: 4000, want: 1},
		"another's, gone":           {before: .5, cached: 0, want: 0},
		"own, agreed on nothing":    {own: true, before: .1, cached: 4000, want: 1},
		"another's, agreed on none": {before: .1, cached: 4000, want: -1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRouter(t, Options{IndexBytes: 1 << 16}, fleet(8)...)
			q := laterTurn(1)
			if tt.own {
				q.Boundaries, q.Previous = q.Boundaries[:2], 0
				pick(t, r, q).Release(Outcome{Status: 200, PromptTokens: 4000, CachedTokens: 0})
			}
			r.strangers.assume(.9, 255)
			r.found.assume(tt.before, 1)
			l := pick(t, r, laterTurn(1))
			require.Equal(t, ReasonHome, l.Reason())
			l.Release(Outcome{Status: 200, PromptTokens: cmp.Or(tt.tokens, 6000), CachedTokens: tt.cached})
			want := tt.before
			if tt.want >= 0 {
				want = (tt.before + tt.want) / 2
			}
			require.InDelta(t, want, r.found.or(-1), .002)
		})
	}
}

// Clients that meet at a conversation's first two endpoints wait there although
// others are idle. Where nothing of the last turn is left they need not.
func TestNobodyMeetsWhereNothingIsLeft(t *testing.T) {
	for _, tt := range []struct {
		misses int
		free   bool
	}{{0, false}, {foundTrust, false}, {4 * foundTrust, true}} {
		now := time.Unix(0, 0)
		r := newRouter(t, Options{IndexBytes: 1 << 16, Now: func() time.Time { return now }}, fleet(8)...)
		r.strangers.assume(.9, 255)
		for range tt.misses {
			r.found.add(0, turnMemory)
		}
		for c := uint64(1); c <= 20; c++ {
			q := laterTurn(c)
			_, key := q.Keys()
			ids := Order(key, fleet(8))
			for _, id := range ids {
				m := r.snap.Load().byID[id]
				wait := time.Duration(0)
				if id == ids[0] || id == ids[1] {
					wait = time.Minute
				}
				m.tally.reading.Store(&reading{until: time.Hour, free: wait, inflow: 1})
			}
			l := pick(t, r, q)
			require.Equal(t, tt.free, l.Endpoint() == ids[2] || l.Endpoint() == ids[3], "%d misses", tt.misses)
			l.Release(Outcome{Status: 200, PromptTokens: -1, CachedTokens: -1})
		}
	}
}

// Where clients have given up agreeing, home may hold what another has left all the
// same, as often as it was found; of that, waiting there is worth a part.
func TestHomeMayHoldWhatOthersLeft(t *testing.T) {
	for _, tt := range []struct {
		strangers, found float64
		stays            bool
	}{{.9, .25, true}, {.9, 0, false}, {.1, .25, false}} {
		now := time.Unix(0, 0)
		r := newRouter(t, Options{IndexBytes: 1 << 16, Now: func() time.Time { return now }}, fleet(8)...)
		for c := uint64(1); c <= 20; c++ {
			r.strangers.assume(tt.strangers, 255)
			r.found.assume(tt.found, 255)
			r.later.assume(0, 255) // so it is not for the next turn's sake
			q := turn(c, 3, 2)
			_, key := q.Keys()
			home := Order(key, fleet(8))[0]
			for _, e := range fleet(8) {
				wait := time.Duration(0)
				if e.ID == home {
					wait = 50 * time.Millisecond // a quarter of the last turn takes 100
				}
				r.snap.Load().byID[e.ID].tally.reading.Store(&reading{until: time.Hour, free: wait, inflow: 1})
			}
			l := pick(t, r, q)
			require.Equal(t, tt.stays, l.Endpoint() == home, "%+v", tt)
			l.Release(Outcome{Status: 200, PromptTokens: -1, CachedTokens: -1})
		}
	}
}

// With two endpoints there is nowhere else to go, and to give up meeting gains nothing.
func TestTwoEndpointsAlwaysMeet(t *testing.T) {
	r := newRouter(t, Options{IndexBytes: 1 << 16}, fleet(3)...)
	r.strangers.assume(.9, 255)
	r.found.assume(.1, 255)
	require.True(t, r.company(3).gone)
	require.InDelta(t, .09, r.company(3).share, .001)
	require.True(t, r.company(2).meet)
	require.False(t, r.company(2).gone)
	require.InDelta(t, .9, r.company(2).share, .001)
}
