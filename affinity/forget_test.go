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
	names := func(word uint64) (all []uint16) {
		for ; word != 0; word >>= 16 {
			all = append(all, uint16(word)-1)
		}
		return all
	}
	for i := range uint16(3) {
		require.ElementsMatch(t, []uint16{(i + 1) % 3, (i + 2) % 3}, names(without(where, i)))
	}
	require.Equal(t, everywhere, without(everywhere, 1))
	require.Zero(t, without(joined(0, 7), 7))
	require.Zero(t, without(0, 7))
}
