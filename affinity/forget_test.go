package affinity

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// foreseen returns how much of a prompt an endpoint is known to have been sent.
func foreseen(t *testing.T, r *Router, id string, q Request) int32 {
	t.Helper()
	for _, e := range r.members {
		if e.ID != id {
			q.Tried = append(q.Tried, e.ID)
		}
	}
	l := pick(t, r, q)
	require.Equal(t, id, l.Endpoint())
	l.Release(Outcome{Status: 503, Boundaries: q.Boundaries}) // as if nobody had asked
	return l.plan.have
}

// An endpoint that has refused a prompt, or that could not be reached, has no more
// of it than before.
func TestRefusedPromptsAreTakenBack(t *testing.T) {
	lost := errors.New("lost")
	for _, tt := range []struct {
		name string
		o    Outcome
		kept bool
	}{
		{"overloaded", Outcome{Status: 503, Remote: true}, false},
		{"bad request", Outcome{Status: 400}, false},
		{"cannot connect", Outcome{Err: lost, Remote: true}, false},
		{"the caller gave up", Outcome{Err: lost}, true},
		{"broke off after its first token", Outcome{Status: 200, Err: lost, Remote: true, FirstByte: time.Second}, true},
		{"a plain answer broke off", Outcome{Status: 200, Err: lost, Remote: true}, true},
		{"good", Outcome{Status: 200}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			es := fleet(2)
			r := newRouter(t, Options{}, es...)
			for _, tenant := range []string{"", "acme"} {
				first := turn(1, 2, 0)
				first.Tenant = tenant
				l := pick(t, r, first)
				l.Release(Outcome{Status: 200})

				next := turn(1, 5, 2)
				next.Tenant, next.Last = tenant, l.Endpoint()
				l = pick(t, r, next)
				tt.o.Boundaries = next.Boundaries
				l.Release(tt.o)
				other := es[0].ID
				if other == l.Endpoint() {
					other = es[1].ID
				}
				next.Last = ""
				want := int32(2 * 8000)
				if tt.kept {
					want = 5 * 8000
				}
				require.Equal(t, want, foreseen(t, r, l.Endpoint(), next))
				require.Zero(t, foreseen(t, r, other, next))
			}
		})
	}
}

// What others have of a prompt stays known.
func TestTakingBackIsOfOneEndpoint(t *testing.T) {
	es := fleet(3)
	r := newRouter(t, Options{}, es...)
	q := turn(1, 3, 0)
	for range es {
		q.Tried = append(q.Tried, pick(t, r, q).Endpoint())
	}
	where := r.index().line(q.Boundaries[2].Hash).get(q.Boundaries[2].Hash)
	for i := range es {
		rest := without(where, uint16(i))
		require.NotEqual(t, where, rest)
		require.Zero(t, rest>>32, "two are left, in the first places")
		require.Equal(t, where, sorted(joined(rest, uint16(i)), where))
	}
	require.Equal(t, everywhere, without(everywhere, 1))
	require.Zero(t, without(joined(0, 7), 7))
	require.Zero(t, without(0, 7))
}

// sorted returns word if it names the same endpoints as like, in whichever order.
func sorted(word, like uint64) uint64 {
	for w := word; w != 0; w >>= 16 {
		if joined(like, uint16(w)-1) != like {
			return word
		}
	}
	return like
}

// More endpoints come and go than there are numbers for them: none is taken for
// another, and what those had that are gone is not ascribed to those that come.
func TestNumbersOfEndpointsNeverMeet(t *testing.T) {
	r := newRouter(t, Options{IndexBytes: 1 << 16}, fleet(3)...)
	q := turn(1, 3, 0)
	l := pick(t, r, q)
	l.Release(outcomeGood)
	require.EqualValues(t, 24_000, foreseen(t, r, l.Endpoint(), q))

	r.mu.Lock()
	r.numbers = maxNumber - 1 // as after so many endpoints
	r.mu.Unlock()
	es := fleet(5)
	require.NoError(t, r.Set(es))
	seen := map[uint16]string{}
	for _, s := range r.snap.Load().any.all {
		require.Empty(t, seen[s.number])
		require.Equal(t, s.tally.number, s.number)
		seen[s.number] = s.tally.id
		require.Zero(t, foreseen(t, r, s.tally.id, q), "all begin anew")
	}
	require.Len(t, seen, 5)
	pick(t, r, q).Release(outcomeGood)
	require.Equal(t, ReasonHome, pick(t, r, turn(1, 4, 3)).Reason())
}

// A fleet larger than the numbers works all the same.
func TestMoreEndpointsThanNumbers(t *testing.T) {
	r := newRouter(t, Options{IndexBytes: 1 << 12}, fleet(maxNumber+10)...)
	q := turn(1, 3, 0)
	require.Equal(t, ReasonHome, pick(t, r, q).Reason())
}
