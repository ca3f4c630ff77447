package affinity

import (
	"errors"
	"fmt"
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
		{"sent elsewhere", Outcome{Status: 307, Err: lost, Remote: true}, false},
		{"cannot connect", Outcome{Err: lost, Remote: true}, false},
		{"left before it was asked", Outcome{}, false},
		{"the caller gave up", Outcome{Err: lost}, true},
		{"broke off after its first token", Outcome{Status: 200, Err: lost, Remote: true, FirstByte: time.Second}, true},
		{"a plain answer broke off", Outcome{Status: 200, Err: lost, Remote: true}, true},
		{"good", Outcome{Status: 200}, true},
		{"good, and only the tokens are told", Outcome{PromptTokens: 10_000}, true},
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
	where := r.snap.Load().sent().line(q.Boundaries[2].Hash).get(q.Boundaries[2].Hash)
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
	require.Equal(t, everywhere, joined(everywhere, maxNumber-1, served))
	require.Zero(t, without(joined(0, maxNumber-1, 0), maxNumber-1))
	require.NotZero(t, without(joined(0, 7, served), 7))
	require.NotZero(t, without(joined(joined(0, 7, served), 7, 0), 7), "being sent it again changes nothing")
	require.Zero(t, without(0, 7))
}

// Of two requests with one beginning, on their way to one endpoint together, what
// one was served stays known when the other is refused, in whatever order they end.
func TestTakingBackSparesWhatOthersWereServed(t *testing.T) {
	refused, good := Outcome{Status: 503, Remote: true}, Outcome{Status: 200}
	unknown := Outcome{Err: errors.New("the caller gave up")}
	begun := Outcome{Status: 200, Err: errors.New("the caller gave up after the headers")}
	for _, tt := range []struct {
		name          string
		first, second Outcome // of the two that were picked in this order
		want          int32
	}{
		{"the first is refused", refused, good, 3 * 8000},
		{"the second is refused", good, refused, 3 * 8000},
		{"both are refused", refused, refused, 0},
		{"one is refused, of the other nothing is known", refused, unknown, 0},
		{"one is refused, of the other there are headers", refused, begun, 0},
	} {
		for _, backwards := range []bool{false, true} {
			r := newRouter(t, Options{}, fleet(2)...)
			q := turn(1, 3, 0)
			tt.first.Boundaries, tt.second.Boundaries = q.Boundaries, q.Boundaries
			first, second := pick(t, r, q), pick(t, r, q)
			require.Equal(t, first.Endpoint(), second.Endpoint())
			if backwards {
				second.Release(tt.second)
				first.Release(tt.first)
			} else {
				first.Release(tt.first)
				second.Release(tt.second)
			}
			require.Equal(t, tt.want, foreseen(t, r, first.Endpoint(), q), "%s, backwards: %v", tt.name, backwards)
		}
	}
}

// When all numbers of endpoints are given out, they are given anew for another
// index. A pick that still sees an older snapshot, and a lease from one, keep to
// the one in which their numbers mean what they meant.
func TestNumbersGivenAnewAreOfAnotherIndex(t *testing.T) {
	for _, made := range []bool{true, false} { // before the numbers are given anew
		r := newRouter(t, Options{IndexBytes: 64 << 10}, fleet(2)...)
		q := turn(1, 3, 0)
		old := r.snap.Load()
		l := new(Lease)
		if made {
			l = pick(t, r, q)
		}
		for given, i := r.numbers, 0; given <= r.numbers; i++ {
			given = r.numbers
			set := make([]Endpoint, 1000)
			for j := range set {
				set[j].ID = fmt.Sprint(i, "/", j)
			}
			require.NoError(t, r.Set(set))
		}
		now := r.snap.Load()
		require.NotSame(t, now.sent(), old.sent())
		l.Release(Outcome{Status: 200, Boundaries: q.Boundaries})
		for _, b := range q.Boundaries {
			require.Zero(t, now.sent().line(b.Hash).get(b.Hash))
			require.Equal(t, made, old.sent().line(b.Hash).get(b.Hash) != 0)
		}
	}
}
