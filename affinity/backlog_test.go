package affinity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBacklogFallsWithTimeAndEndsWithTheLastPrompt(t *testing.T) {
	var b backlog
	p := pace{token: 1e-4}
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	b.update(at(0), Gauges{}, p)
	d := b.update(at(1), Gauges{Running: 1, PrefixQueries: 30000, PrefixHits: 10000}, p)
	require.Equal(t, progress{elapsed: 1, computed: 20000}, d)
	require.InDelta(t, 1.5, b.left, 1e-9, "two seconds of work, begun half a second ago on average")
	b.update(at(2), Gauges{Running: 1, PrefixQueries: 30000, PrefixHits: 10000}, p)
	require.InDelta(t, .5, b.left, 1e-9)
	b.update(at(3), Gauges{Running: 1, PrefixQueries: 30000, PrefixHits: 10000}, p)
	require.Equal(t, leastLeft, b.left, "it is late, but not over")
	d = b.update(at(4), Gauges{Running: 1, PrefixQueries: 30000, PrefixHits: 10000, PromptTokens: 30000, FirstTokens: 1}, p)
	require.Equal(t, 1.0, d.begun)
	require.Zero(t, b.left)
}

// A prompt that is aborted while it is computed never reaches prompt_tokens
// (recorded in internal/e2e/testdata/gauges.json).
func TestBacklogForgetsAbortedPrompts(t *testing.T) {
	var b backlog
	p := pace{token: 1e-4}
	b.update(0, Gauges{}, p)
	b.update(1*time.Second, Gauges{Running: 1, PrefixQueries: 3135}, p)
	b.update(2*time.Second, Gauges{PrefixQueries: 3135}, p)
	require.Zero(t, b.left, "an idle engine has nothing ahead of it")
	b.update(3*time.Second, Gauges{Running: 1, PrefixQueries: 13135}, p)
	require.InDelta(t, .5, b.left, 1e-9)
	b.update(4*time.Second, Gauges{Running: 1, PrefixQueries: 13135, PromptTokens: 10000, FirstTokens: 1}, p)
	require.Zero(t, b.left)
}

func TestBacklogFindsItsZeroOnAnEngineThatIsNeverIdle(t *testing.T) {
	var b backlog
	p := pace{token: 1e-4}
	g := Gauges{Running: 3, PrefixQueries: 5000} // 5,000 are lost for good
	for s := range 20 * 60 {
		if s%2 == 0 {
			g.PrefixQueries += 3000
		} else {
			g.PromptTokens += 3000
			g.FirstTokens++
		}
		b.update(time.Duration(s)*time.Second, g, p)
	}
	require.Zero(t, b.left)
}

// A client that has been idle does not poll. What its first reading afterwards
// says of the night is soon outweighed by what follows.
func TestRatesAfterALongGap(t *testing.T) {
	now := time.Unix(0, 0)
	es := fleet(2)
	r := newRouter(t, Options{Now: func() time.Time { return now }}, es...)
	var g [2]Gauges
	poll := func(after time.Duration, requests ...uint64) {
		now = now.Add(after)
		for i, e := range es {
			g[i].PrefixQueries += 1000 * requests[i]
			g[i].PromptTokens += 1000 * requests[i]
			g[i].FirstTokens += requests[i]
			r.Observe(e.ID, g[i])
		}
	}
	poll(0, 0, 0)
	poll(8*time.Hour, 80_000, 0)
	for range 60 {
		poll(time.Second, 0, 2)
	}
	require.InDelta(t, 1*.632+80_000/28_800./2*.368, r.outlook.Load().rate, .05, "two a second on one of two; the night counts as a minute")
	inflow := func(i int) float64 { return r.tallies[es[i].ID].reading.Load().inflow }
	require.Less(t, inflow(0), 2.0)
	for range 20 * 60 {
		poll(time.Second, 0, 2)
	}
	require.Less(t, inflow(0), .5, "ten minutes are what it looks back")
	require.Greater(t, inflow(1), 1.5)
}

// An endpoint that drains has no part in the means: were it in them, the others
// would all seem to get more than their share, and hand on keys for no reason.
func TestMeansAreOfThoseThatShareTheLoad(t *testing.T) {
	now := time.Unix(0, 0)
	es := fleet(3)
	r := newRouter(t, Options{Now: func() time.Time { return now }}, es...)
	var counts [3]Gauges
	run := func(minutes int, serving ...int) {
		for range 60 * minutes {
			now = now.Add(time.Second)
			for _, i := range serving {
				counts[i].PrefixQueries += 1000
				counts[i].PromptTokens += 1000
				counts[i].FirstTokens += 2
			}
			for i := range es {
				g := counts[i]
				g.CacheTokens = 100_000 * (1 + i)
				r.Observe(es[i].ID, g)
			}
		}
	}
	run(10, 0, 1, 2)
	es[2].Draining = true
	require.NoError(t, r.Set(es))
	run(10, 0, 1)
	for _, e := range es[:2] {
		require.InDelta(t, 1, r.tallies[e.ID].reading.Load().inflow, .01)
	}
	require.InDelta(t, 2, r.outlook.Load().rate, .01)
	require.InDelta(t, 150_000, r.outlook.Load().memory, .01)
}

// An endpoint of thrice the weight is to get thrice the load: that is its share, no
// reason to hand on keys. If all get the same, the light ones get too much.
func TestInflowIsMeasuredByTheShareOfAnEndpoint(t *testing.T) {
	for _, tt := range []struct{ rates, want [3]float64 }{
		{rates: [3]float64{1, 3, 1}, want: [3]float64{1, 1, 1}},
		{rates: [3]float64{1, 1, 1}, want: [3]float64{5. / 3, 5. / 9, 5. / 3}},
	} {
		now := time.Unix(0, 0)
		es := fleet(3)
		es[1].Weight = 3 // of the others it is 0, which is 1
		r := newRouter(t, Options{Now: func() time.Time { return now }}, es...)
		for s := range 600 {
			now = now.Add(time.Second)
			for i, e := range es {
				n := uint64(float64(s) * tt.rates[i])
				r.Observe(e.ID, Gauges{PrefixQueries: 1000 * n, PromptTokens: 1000 * n, FirstTokens: n})
			}
		}
		for i, e := range es {
			require.InDelta(t, tt.want[i], r.tallies[e.ID].reading.Load().inflow, .01)
		}
	}
}

func TestBacklogStartsOverWithTheEngine(t *testing.T) {
	var b backlog
	b.update(0, Gauges{PrefixQueries: 100, PromptTokens: 100}, defaultPace)
	d := b.update(time.Second, Gauges{PrefixQueries: 10}, defaultPace)
	require.Equal(t, progress{restarted: true}, d, "a restart is no progress")
	d = b.update(2*time.Second, Gauges{Running: 1, PrefixQueries: 20}, defaultPace)
	require.Equal(t, progress{elapsed: 1, computed: 10}, d)
}
