package affinity

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestConversationStaysHome(t *testing.T) {
	es := fleet(8)
	r := newRouter(t, Options{}, es...)
	homes := map[string]int{}
	for root := uint64(1); root <= 800; root++ {
		req := Request{Head: 1, Root: root}
		_, key := req.Keys()
		lease := pick(t, r, req)
		require.Equal(t, Order(key, es)[0], lease.Endpoint())
		require.Equal(t, lease.Endpoint(), lease.Home())
		require.Equal(t, ReasonHome, lease.Reason())
		homes[lease.Endpoint()]++
		lease.Release(Outcome{})
		require.Equal(t, lease.Endpoint(), pick(t, newRouter(t, Options{Seed: root}, es...), req).Endpoint(), "another client agrees")
	}
	require.Len(t, homes, 8)
}

func TestOverflowFollowsTheKeysOrder(t *testing.T) {
	es := fleet(5)
	r := newRouter(t, Options{Limit: 2}, es...)
	req := Request{Root: 99}
	_, key := req.Keys()
	order := Order(key, es)
	for i := range 10 {
		lease := pick(t, r, req)
		require.Equal(t, order[i/2], lease.Endpoint())
		require.Equal(t, order[0], lease.Home())
		want := ReasonOverflowFull
		if i < 2 {
			want = ReasonHome
		}
		require.Equal(t, want, lease.Reason())
		require.Equal(t, i >= 2, lease.Reason().Overflow())
	}
	over := pick(t, r, req)
	require.Equal(t, ReasonOverLimit, over.Reason())
	require.Equal(t, order[0], over.Endpoint(), "all equally full: the key's order decides")
	require.Equal(t, order[1], pick(t, r, req).Endpoint(), "the least loaded of those beyond their limit")
}

func TestBoundedLoad(t *testing.T) {
	es := fleet(4)
	r := newRouter(t, Options{Floor: 3}, es...)
	req := Request{Root: 5}
	_, key := req.Keys()
	order := Order(key, es)
	// Alone on the fleet, the home takes the floor of 3 and then
	// ceil(1.25*(total+1)/4): with 3 in flight that is 2, so it overflows.
	got := map[string]int{}
	for range 4 {
		got[pick(t, r, req).Endpoint()]++
	}
	require.Equal(t, map[string]int{order[0]: 3, order[1]: 1}, got)
	// With 12 in flight in all the bound rises to ceil(1.25*13/4) = 5.
	for i := range 8 {
		pick(t, r, Request{Sticky: order[1+i%3]})
	}
	for _, want := range []int{4, 5, 5} {
		lease := pick(t, r, req)
		require.Equal(t, want, stats(t, r, order[0]).InFlight)
		if lease.Endpoint() != order[0] {
			require.Equal(t, ReasonOverflowLoad, lease.Reason())
			require.Equal(t, uint64(2), stats(t, r, order[0]).Away)
		}
	}
}

func TestOverflowPassesOverWhatIsAboveTheBoundToo(t *testing.T) {
	es := fleet(4)
	r := newRouter(t, Options{Floor: 1}, es...)
	req := Request{Root: 5}
	_, key := req.Keys()
	order := Order(key, es)
	for _, i := range []int{0, 0, 1, 1, 1, 2} { // the bound is ceil(1.25*7/4) = 3
		pick(t, r, Request{Sticky: order[i]})
	}
	require.Equal(t, order[0], pick(t, r, req).Endpoint())
	require.Equal(t, order[2], pick(t, r, req).Endpoint(), "home and second have three each")
	tried := Request{Root: 5, Tried: []string{order[2], order[3]}}
	require.Equal(t, ReasonHome, pick(t, r, tried).Reason(), "all that is left is above the bound, and home has least")
	lease := pick(t, r, tried)
	require.Equal(t, order[1], lease.Endpoint(), "now the second has")
	require.Equal(t, ReasonOverflowLoad, lease.Reason())
}

// The bound is compared without a division; here is the formula itself.
func TestBoundIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := endpoints(1, rapid.Bool().Draw(t, "weights")).Draw(t, "endpoints")
		floor := rapid.IntRange(1, 6).Draw(t, "floor")
		sixteenths := rapid.IntRange(16, 40).Draw(t, "load factor in sixteenths")
		r, err := New(Options{Floor: floor, LoadFactor: float64(sixteenths) / 16})
		require.NoError(t, err)
		require.NoError(t, r.Set(es))
		g := r.snap.Load().any
		var total, weight int
		for i := range g.up {
			n := rapid.IntRange(0, 12).Draw(t, "in flight")
			g.up[i].tally.inFlight.Store(int64(n))
			total += n
			weight += int(g.up[i].weight)
		}
		for i := range g.up {
			s := &g.up[i]
			over, under := sixteenths*(total+1)*int(s.weight), 16*weight
			most := max(floor, (over+under-1)/under)
			require.Equal(t, int(s.tally.load()) < most, r.bound(g).open(s))
		}
	})
}

func TestOverLimitTakesRoomThatAppeared(t *testing.T) {
	r := newRouter(t, Options{Limit: 1}, fleet(2)...)
	g := r.snap.Load().any
	// As if another request had ended after the pick found everything full.
	over := func(tried ...string) Reason {
		c := choice{group: g, home: &g.up[0], reason: ReasonOverflowFull}
		require.True(t, r.overLimit(&c, tried))
		return c.reason
	}
	require.Equal(t, ReasonHome, over(g.up[1].tally.id))
	require.Equal(t, ReasonOverflowFull, over())
	require.Equal(t, ReasonOverLimit, over())
}

func TestSmallLoadsDoNotOverflow(t *testing.T) {
	// kubeai#519: with many endpoints and one hot prefix the relative bound is
	// 1, so without a floor every second request would leave.
	r := newRouter(t, Options{}, fleet(256)...)
	for range 8 {
		require.Equal(t, ReasonHome, pick(t, r, Request{Root: 3}).Reason())
	}
	require.Equal(t, ReasonOverflowLoad, pick(t, r, Request{Root: 3}).Reason())
}

func TestNoKeyGoesByLoad(t *testing.T) {
	r := newRouter(t, Options{}, fleet(8)...)
	seen := map[string]int{}
	for range 16 {
		lease := pick(t, r, Request{})
		require.Equal(t, ReasonLeastLoaded, lease.Reason())
		require.Empty(t, lease.Home())
		seen[lease.Endpoint()]++
	}
	for id, n := range seen {
		require.Equal(t, 2, n, id)
	}
	require.Len(t, seen, 8)
}

func TestModelsAreEligible(t *testing.T) {
	set := []Endpoint{
		{ID: "base-1", Models: []string{"base"}},
		{ID: "base-2", Models: []string{"base"}},
		{ID: "lora", Models: []string{"base", "lora"}},
		{ID: "new"}, // not asked yet
		{ID: "empty", Models: []string{}},
	}
	for _, strategy := range strategies {
		r := newRouter(t, Options{Strategy: strategy}, set...)
		got := map[string]map[string]bool{}
		for root := range uint64(200) {
			for _, model := range []string{"base", "lora", "other", ""} {
				if got[model] == nil {
					got[model] = map[string]bool{}
				}
				lease := pick(t, r, Request{Model: model, Root: root})
				got[model][lease.Endpoint()] = true
				lease.Release(Outcome{})
			}
		}
		require.Equal(t, map[string]map[string]bool{
			"base":  {"base-1": true, "base-2": true, "lora": true, "new": true},
			"lora":  {"lora": true, "new": true},
			"other": {"new": true},
			"":      {"base-1": true, "base-2": true, "lora": true, "new": true, "empty": true},
		}, got, strategy)
	}
}

func TestLoadIsComparedOverEligibleEndpointsOnly(t *testing.T) {
	set := append(fleet(2), Endpoint{ID: "other", Models: []string{"other"}})
	set[0].Models, set[1].Models = []string{"m"}, []string{"m"}
	r := newRouter(t, Options{Floor: 1}, set...)
	for range 300 { // would raise the bound to 126 if it were counted
		pick(t, r, Request{Model: "other"})
	}
	for root := range uint64(40) {
		pick(t, r, Request{Model: "m", Root: root})
	}
	for _, e := range set[:2] {
		// max over time of ceil(1.25*(total+1)/2), total at most 39
		require.LessOrEqual(t, stats(t, r, e.ID).InFlight, 25)
	}
}

func TestUnavailableIsSkippedUntilAllAre(t *testing.T) {
	for _, strategy := range strategies {
		set := fleet(3)
		set[1].Unavailable = true
		r := newRouter(t, Options{Strategy: strategy}, set...)
		for root := range uint64(100) {
			lease := pick(t, r, Request{Root: root + 1})
			require.NotEqual(t, set[1].ID, lease.Endpoint(), strategy)
			if lease.Home() == set[1].ID {
				require.Equal(t, ReasonUnavailable, lease.Reason())
			}
			lease.Release(Outcome{})
		}
		set[0].Unavailable, set[2].Unavailable = true, true
		require.NoError(t, r.Set(set))
		seen := map[string]bool{}
		for root := range uint64(100) {
			lease := pick(t, r, Request{Root: root + 1})
			require.NotEqual(t, ReasonUnavailable, lease.Reason())
			seen[lease.Endpoint()] = true
			lease.Release(Outcome{})
		}
		require.Len(t, seen, 3, "%s fails open", strategy)
	}
}

func TestDrainingGetsNothing(t *testing.T) {
	for _, strategy := range strategies {
		set := fleet(2)
		r := newRouter(t, Options{Strategy: strategy}, set...)
		own := pick(t, r, Request{Sticky: set[0].ID})
		set[0].Draining, set[1].Unavailable = true, true
		require.NoError(t, r.Set(set))
		for root := range uint64(50) {
			lease := pick(t, r, Request{Root: root + 1})
			require.Equal(t, set[1].ID, lease.Endpoint(), "%s, even failing open", strategy)
			lease.Release(Outcome{})
		}
		require.Equal(t, 1, stats(t, r, set[0].ID).InFlight)
		own.Release(Outcome{})
		require.Zero(t, stats(t, r, set[0].ID).InFlight)
	}
}

func TestTriedAreExcluded(t *testing.T) {
	es := fleet(4)
	for _, strategy := range strategies {
		r := newRouter(t, Options{Strategy: strategy}, es...)
		req := Request{Root: 11}
		_, key := req.Keys()
		order := Order(key, es)
		for i := range es {
			lease := pick(t, r, req)
			require.NotContains(t, req.Tried, lease.Endpoint(), strategy)
			if strategy == Affinity || strategy == BoundedLoad {
				require.Equal(t, order[i], lease.Endpoint(), "failover follows the key's own order")
				require.Equal(t, order[0], lease.Home())
				if i > 0 {
					require.Equal(t, ReasonFailover, lease.Reason())
				}
			}
			req.Tried = append(req.Tried, lease.Endpoint())
			lease.Release(Outcome{})
		}
		// Everything was tried: the least loaded, but never the last.
		busy := pick(t, r, Request{Sticky: req.Tried[0]})
		for range 20 {
			lease := pick(t, r, req)
			require.Contains(t, []string{req.Tried[1], req.Tried[2]}, lease.Endpoint(), strategy)
			require.Equal(t, ReasonFailover, lease.Reason())
			lease.Release(Outcome{})
		}
		busy.Release(Outcome{})
	}
	only := newRouter(t, Options{}, es[0])
	again := pick(t, only, Request{Root: 1, Tried: []string{es[0].ID}})
	require.Equal(t, es[0].ID, again.Endpoint())
	require.Equal(t, ReasonHome, again.Reason(), "back at home is no overflow")
}

func TestSticky(t *testing.T) {
	set := fleet(3)
	set[1].Unavailable = true
	for _, strategy := range strategies {
		r := newRouter(t, Options{Strategy: strategy, Limit: 1}, set...)
		for range 2 { // the second goes beyond the limit: there is no other place
			lease := pick(t, r, Request{Root: 3, Sticky: set[1].ID, Tried: []string{set[1].ID}})
			require.Equal(t, set[1].ID, lease.Endpoint())
			require.Equal(t, ReasonSticky, lease.Reason())
		}
		refuse := newRouter(t, Options{Strategy: strategy, Limit: 1, OverLimit: OverLimitRefuse}, set...)
		pick(t, refuse, Request{Sticky: set[1].ID})
		_, err := refuse.Pick(&Request{Sticky: set[1].ID})
		require.ErrorIs(t, err, ErrOverLimit)
	}
}

func TestSessionTenantAndCacheKey(t *testing.T) {
	es := fleet(16)
	r := newRouter(t, Options{}, es...)
	where := func(req Request) string {
		lease := pick(t, r, req)
		defer lease.Release(Outcome{})
		return lease.Endpoint()
	}
	home := where(Request{Root: 1, Session: "s"})
	for root := uint64(2); root < 50; root++ {
		require.Equal(t, home, where(Request{Head: root, Root: root, Session: "s"}), "a session replaces the root")
	}
	separated := func(vary func(i int) Request) int {
		seen := map[string]bool{}
		for i := range 64 {
			seen[where(vary(i))] = true
		}
		return len(seen)
	}
	name := func(i int) string { return string(rune('A' + i)) }
	require.Greater(t, separated(func(i int) Request { return Request{Root: 1, Tenant: name(i)} }), 8)
	require.Greater(t, separated(func(i int) Request { return Request{Root: 1, CacheKey: name(i)} }), 8)
	require.Greater(t, separated(func(i int) Request { return Request{Session: "s", Tenant: name(i)} }), 8)
	require.Equal(t, 1, separated(func(i int) Request { return Request{Root: 1, Tenant: "t"} }))
}

func TestARequestCanNameItsStrategy(t *testing.T) {
	es := fleet(4)
	r := newRouter(t, Options{}, es...)
	req := Request{Root: 7, Strategy: RoundRobin}
	seen := map[string]bool{}
	for range 4 {
		lease := pick(t, r, req)
		require.Equal(t, ReasonRoundRobin, lease.Reason())
		seen[lease.Endpoint()] = true
	}
	require.Len(t, seen, 4)
	for _, e := range r.Stats() {
		require.Equal(t, 1, e.InFlight, "both strategies count alike")
	}
	req.Strategy = ""
	lease := pick(t, r, req)
	require.Equal(t, ReasonHome, lease.Reason())
	req.Strategy = "best"
	_, err := r.Pick(&req)
	require.ErrorContains(t, err, "use one of")
}
