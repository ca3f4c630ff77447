package affinity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// fleet returns n endpoints with short names.
func fleet(n int) []Endpoint {
	es := make([]Endpoint, n)
	for i := range es {
		es[i].ID = fmt.Sprintf("http://10.0.%d.%d:8000", i/250, i%250+1)
	}
	return es
}

func newRouter(t testing.TB, o Options, endpoints ...Endpoint) *Router {
	t.Helper()
	if o.Seed == 0 {
		o.Seed = 1
	}
	r, err := New(o)
	require.NoError(t, err)
	require.NoError(t, r.Set(endpoints))
	return r
}

func pick(t testing.TB, r *Router, req Request) *Lease {
	t.Helper()
	l, err := r.Pick(&req)
	require.NoError(t, err)
	return &l
}

// stats finds one endpoint's.
func stats(t testing.TB, r *Router, id string) EndpointStats {
	t.Helper()
	for _, s := range r.Stats() {
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("no statistics of %s", id)
	return EndpointStats{}
}

func TestNewRefusesWrongOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		says string
	}{
		{Options{Strategy: "sticky"}, `unknown strategy "sticky"; use one of affinity, bounded-load, fixed-prefix, least-outstanding, round-robin, random`},
		{Options{Floor: -1}, "use 0 for the default of 8, or 1 for no floor"},
		{Options{LoadFactor: 0.5}, "use 0 for the default of 1.25, or a number from 1 to 1024"},
		{Options{FixedPrefix: FixedPrefixOptions{Length: 1023}}, "use 0 for the default of 4096, or a number from 1024 to 65536"},
		{Options{FixedPrefix: FixedPrefixOptions{Length: 65537}}, "a number from 1024 to 65536"},
		{Options{FixedPrefix: FixedPrefixOptions{Concurrency: 1025}}, "use 0 for the default of 24, or a number from 1 to 1024"},
		{Options{FixedPrefix: FixedPrefixOptions{Concurrency: -1}}, "a number from 1 to 1024"},
		{Options{Limit: -3}, "use 0 for no limit, or at least 1"},
		{Options{OverLimit: 9}, "use OverLimitExceed or OverLimitRefuse"},
	} {
		_, err := New(c.o)
		require.ErrorContains(t, err, c.says)
	}
	if tooMuch := int64(maxIndexBytes + 1); int64(int(tooMuch)) == tooMuch { // an int of 32 bits cannot ask for it
		_, err := New(Options{IndexBytes: int(tooMuch)})
		require.ErrorContains(t, err, "at most 64 GiB")
	}
}

func TestSetRefusesWrongEndpointsAndKeepsTheOld(t *testing.T) {
	r := newRouter(t, Options{}, Endpoint{ID: "a"})
	for _, c := range []struct {
		set  []Endpoint
		says string
	}{
		{[]Endpoint{{ID: ""}}, "endpoint 0 has no ID; give each endpoint a stable name"},
		{[]Endpoint{{ID: "x"}, {ID: "y"}, {ID: "x"}}, `endpoints 0 and 2 have the same ID "x"; list it once`},
		{[]Endpoint{{ID: "x", Limit: -1}}, "use 0 for no limit of its own"},
		{[]Endpoint{{ID: "x", Weight: 1 << 20}}, "weights are relative, use small ones"},
		{[]Endpoint{{ID: "x", Models: []string{""}}}, "leave Models nil"},
	} {
		require.ErrorContains(t, r.Set(c.set), c.says)
		require.Equal(t, "a", pick(t, r, Request{}).Endpoint())
	}
}

func TestStrategySwitchKeepsCounts(t *testing.T) {
	r := newRouter(t, Options{}, fleet(4)...)
	require.Equal(t, Affinity, r.Strategy())
	lease := pick(t, r, Request{Root: 7})
	id := lease.Endpoint()
	require.NoError(t, r.SetStrategy(LeastOutstanding))
	require.Equal(t, LeastOutstanding, r.Strategy())
	require.Equal(t, 1, stats(t, r, id).InFlight)
	for range 30 {
		other := pick(t, r, Request{Root: 7})
		require.NotEqual(t, id, other.Endpoint(), "the lease from before the switch still counts")
		other.Release(Outcome{})
	}
	require.ErrorContains(t, r.SetStrategy("fastest"), "use one of affinity")
	require.Equal(t, LeastOutstanding, r.Strategy())
	lease.Release(Outcome{})
	require.Zero(t, stats(t, r, id).InFlight)
}

func TestErrors(t *testing.T) {
	r, err := New(Options{})
	require.NoError(t, err)
	_, err = r.Pick(&Request{})
	require.ErrorIs(t, err, ErrNoEndpoints, "before the first Set")
	_, err = r.Pick(&Request{Model: "m"})
	require.ErrorIs(t, err, ErrNoEndpoints, "a model does not change that")

	require.NoError(t, r.Set([]Endpoint{{ID: "a", Draining: true}}))
	_, err = r.Pick(&Request{})
	require.ErrorIs(t, err, ErrNoEndpoints)
	require.ErrorContains(t, err, "draining")
	_, err = r.Pick(&Request{Sticky: "a"})
	require.ErrorIs(t, err, ErrStickyGone)
	require.ErrorContains(t, err, `endpoint "a" holds the state of this request and is draining`)

	_, err = r.Pick(&Request{Sticky: "z"})
	var sticky *StickyError
	require.ErrorAs(t, err, &sticky)
	require.Equal(t, StickyError{Endpoint: "z"}, *sticky)
	require.ErrorContains(t, err, "has left the fleet")

	require.NoError(t, r.Set([]Endpoint{
		{ID: "a", Models: []string{"llama", "adapter"}}, {ID: "b", Models: []string{"llama"}}}))
	_, err = r.Pick(&Request{Model: "gpt"})
	require.ErrorIs(t, err, ErrModelNotServed)
	var model *ModelError
	require.ErrorAs(t, err, &model)
	require.Equal(t, ModelError{Model: "gpt", Served: []string{"adapter", "llama"}}, *model)
	require.ErrorContains(t, err, `no endpoint serves the model "gpt"; ask for a served one (adapter, llama)`)
}
