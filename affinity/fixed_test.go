package affinity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFixedPrefixSpillsToTheLeastBusy(t *testing.T) {
	es := fleet(4)
	r := newRouter(t, Options{Strategy: FixedPrefix, FixedPrefix: FixedPrefixOptions{Concurrency: 3}}, es...)
	req := Request{Prefix: 42}
	home := pick(t, r, req)
	require.Equal(t, ReasonHome, home.Reason())
	var others []string
	for _, e := range es {
		if e.ID != home.Endpoint() {
			others = append(others, e.ID)
		}
	}
	for range 2 {
		require.Equal(t, home.Endpoint(), pick(t, r, req).Endpoint())
		pick(t, r, Request{Sticky: others[0]})
		pick(t, r, Request{Sticky: others[1]})
	}
	spilt := pick(t, r, req)
	require.Equal(t, others[2], spilt.Endpoint())
	require.Equal(t, ReasonOverflowLoad, spilt.Reason())
	require.Equal(t, home.Endpoint(), spilt.Home())

	// When all others are busier still, there is no more capacity elsewhere.
	for range 5 {
		for _, id := range others {
			pick(t, r, Request{Sticky: id})
		}
	}
	last := pick(t, r, req)
	require.Equal(t, home.Endpoint(), last.Endpoint())
	require.Equal(t, ReasonHome, last.Reason())
}

func TestFixedPrefixKeepsToTheHardLimit(t *testing.T) {
	es := fleet(2)
	r := newRouter(t, Options{Strategy: FixedPrefix, Limit: 1, OverLimit: OverLimitRefuse}, es...)
	require.Equal(t, ReasonHome, pick(t, r, Request{Prefix: 42}).Reason())
	require.Equal(t, ReasonOverflowFull, pick(t, r, Request{Prefix: 42}).Reason())
	_, err := r.Pick(&Request{Prefix: 42})
	require.ErrorIs(t, err, ErrOverLimit)
}

func TestPrefixKey(t *testing.T) {
	key := func(length int, r Request) uint64 {
		k, err := r.prefixKey(length)
		require.NoError(t, err)
		return k
	}
	bounds := []Boundary{{Hash: 1, Bytes: 100}, {Hash: 2, Bytes: 3000}, {Hash: 3, Bytes: 4096}, {Hash: 4, Bytes: 9000}}
	exact := key(4096, Request{Prefix: 3})
	require.NotZero(t, exact)
	for _, c := range []struct {
		length int
		bounds []Boundary
		hash   uint64 // 0 for no key
	}{
		{1024, bounds, 1}, {4095, bounds, 2}, {4096, bounds, 3}, {8999, bounds, 3}, {65536, bounds, 4},
		{1024, bounds[3:], 4}, // longer than the prefix, but all there is
		{1024, nil, 0},
	} {
		want := uint64(0)
		if c.hash != 0 {
			want = key(1024, Request{Prefix: c.hash})
		}
		require.Equal(t, want, key(c.length, Request{Boundaries: c.bounds}), "%d of %v", c.length, c.bounds)
	}
	require.Equal(t, exact, key(4096, Request{Prefix: 3, Boundaries: bounds[:1]}), "an exact prefix comes first")
	require.Equal(t, exact, key(4096, Request{Prefix: 3, Head: 1, Root: 2, Session: "s"}), "sessions are not in the rule")
	require.NotEqual(t, exact, key(4096, Request{Prefix: 3, CacheKey: "id"}), "the routing id is combined with the prefix")
	require.NotEqual(t, exact, key(4096, Request{Prefix: 3, Tenant: "t"}))
	_, root := (&Request{Root: 3}).Keys()
	require.NotEqual(t, exact, root, "hashes of different meaning do not meet")

	for id, ok := range map[string]bool{
		strings.Repeat("x", 64): true, "": true, "a b~": true,
		strings.Repeat("x", 65): false, "é": false, "\x80": false,
	} {
		req := Request{Prefix: 3, CacheKey: id}
		_, err := req.prefixKey(4096)
		require.Equal(t, ok, err == nil, "%q", id)
		r := newRouter(t, Options{Strategy: FixedPrefix}, fleet(2)...)
		_, err = r.Pick(&req)
		if !ok {
			require.ErrorIs(t, err, ErrRoutingID)
			require.ErrorContains(t, err, "ASCII and at most 64 characters")
		}
		require.NoError(t, r.SetStrategy(BoundedLoad))
		_, err = r.Pick(&req)
		require.NoError(t, err, "other strategies take any cache key")
	}
}

func TestFixedPrefixWithoutAPrefixGoesByLoad(t *testing.T) {
	r := newRouter(t, Options{Strategy: FixedPrefix}, fleet(3)...)
	seen := map[string]bool{}
	for range 3 {
		lease := pick(t, r, Request{Root: 1, Session: "s"})
		require.Equal(t, ReasonLeastLoaded, lease.Reason())
		seen[lease.Endpoint()] = true
	}
	require.Len(t, seen, 3)
}

func TestStricterLimit(t *testing.T) {
	for _, c := range []struct{ limit, want int64 }{{0, 24}, {3, 3}, {99, 24}} {
		s := slot{limit: c.limit}
		require.Equal(t, c.want, s.stricter(24))
	}
}
