package affinity

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	outcomeGood = Outcome{Status: 200, Remote: true, PromptTokens: -1, CachedTokens: -1}
	outcomeBad  = Outcome{Status: 500, Remote: true, PromptTokens: -1, CachedTokens: -1}
)

// An ejecting is a router with a clock of its own.
type ejecting struct {
	*Router
	t     testing.TB
	now   time.Time
	heard map[string]time.Duration // what OnAside has said last
}

func newEjecting(t testing.TB, n int, o Options) *ejecting {
	e := &ejecting{t: t, now: time.Unix(1_000_000, 0), heard: map[string]time.Duration{}}
	if o.Ejection == nil {
		o.Ejection = &Ejection{}
	}
	o.Now = func() time.Time { return e.now }
	o.OnAside = func(id string, d time.Duration) {
		require.NotEqual(t, e.heard[id] > 0, d > 0, "no news of %s", id)
		e.heard[id] = d
		e.Stats() // the router can be asked
	}
	r, err := New(o)
	require.NoError(t, err)
	e.Router = r
	require.NoError(t, r.Set(fleetOf(n)))
	return e
}

func fleetOf(n int) []Endpoint {
	set := make([]Endpoint, n)
	for i := range set {
		set[i].ID = fmt.Sprint("e", i)
	}
	return set
}

func (e *ejecting) pick(req Request) *Lease {
	lease, err := e.Pick(&req)
	require.NoError(e.t, err)
	return &lease
}

// at makes n requests end at one endpoint as o says.
func (e *ejecting) at(id string, n int, o Outcome) {
	for range n {
		e.pick(Request{Sticky: id}).Release(o)
	}
}

func (e *ejecting) aside() (ids []string) {
	for _, s := range e.Stats() {
		require.Equal(e.t, s.Aside, e.heard[s.ID] > 0, "of %s OnAside says otherwise", s.ID)
		if s.Aside {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// homeOf returns a request whose home is the given endpoint.
func (e *ejecting) homeOf(id string) Request {
	for root := uint64(1); ; root++ {
		lease := e.pick(Request{Root: root})
		lease.Release(Outcome{})
		if lease.Home() == id {
			return Request{Root: root}
		}
	}
}

func TestEjectionWaitsForFailuresInARow(t *testing.T) {
	e := newEjecting(t, 4, Options{})
	home := e.homeOf("e2")
	e.at("e2", 4, outcomeBad)
	e.at("e2", 1, outcomeGood)
	e.at("e2", 4, outcomeBad)
	require.Empty(t, e.aside(), "a success between them starts the count anew")
	e.at("e2", 1, outcomeBad)
	require.Equal(t, []string{"e2"}, e.aside())
	lease := e.pick(home)
	require.NotEqual(t, "e2", lease.Endpoint())
	require.Equal(t, ReasonUnavailable, lease.Reason())
	lease.Release(outcomeGood)
}

func TestLocalOutcomesDoNotEject(t *testing.T) {
	e := newEjecting(t, 4, Options{})
	e.at("e1", 100, Outcome{Err: errors.New("canceled"), Remote: false})
	e.at("e1", 100, Outcome{Status: 400, Remote: false})
	e.at("e1", 100, Outcome{})
	// Busy with another request, refusals do not count; idle, they do.
	running := e.pick(Request{Sticky: "e1"})
	e.at("e1", 100, Outcome{Status: 503, Remote: true})
	require.Empty(t, e.aside())
	running.Release(outcomeGood)
	e.at("e1", 5, Outcome{Status: 503, Remote: true})
	require.Equal(t, []string{"e1"}, e.aside())
}

func TestAtMostHalfIsEjected(t *testing.T) {
	for n := 1; n <= 9; n++ {
		e := newEjecting(t, n, Options{})
		for i := range n {
			e.at(fmt.Sprint("e", i), 5, outcomeBad)
			want := min(i+1, n/2)
			if i == n-1 {
				want = 0 // all look bad: none is set aside
			}
			require.Len(t, e.aside(), want, "%d of %d are bad", i+1, n)
		}
		e.pick(Request{Root: 7}).Release(outcomeGood)
	}
}

// A recovering endpoint gets one request, then two at once, four, and so on.
func TestHalfOpenAndSlowStart(t *testing.T) {
	e := newEjecting(t, 4, Options{})
	home := e.homeOf("e2")
	e.at("e2", 5, outcomeBad)
	e.now = e.now.Add(defaultAside - 1)
	require.NotEqual(t, "e2", e.pick(home).Endpoint())
	e.now = e.now.Add(1)
	for width := 1; width <= fullRamp; width *= 2 {
		var there []*Lease
		for range 2 * width {
			if l := e.pick(home); l.Endpoint() == "e2" {
				there = append(there, l)
			} else {
				require.Equal(t, ReasonOverflowFull, l.Reason())
				l.Release(outcomeGood)
			}
			if len(there) > 7 && width >= 8 {
				break // above the floor the bound of the load has its say
			}
		}
		require.Len(t, there, min(width, 8))
		for _, l := range there {
			l.Release(outcomeGood)
		}
		for range width - len(there) {
			l := e.pick(home)
			require.Equal(t, "e2", l.Endpoint())
			l.Release(outcomeGood)
		}
	}
	var stats EndpointStats
	for _, s := range e.Stats() {
		if s.ID == "e2" {
			stats = s
		}
	}
	require.EqualValues(t, 1, stats.Ejections)
	require.False(t, e.tallies["e2"].trouble.Load(), "it is like any other again")
}

func TestFailedProbeDoublesTheTime(t *testing.T) {
	e := newEjecting(t, 4, Options{})
	home := e.homeOf("e2")
	e.at("e2", 5, outcomeBad)
	for _, d := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		e.now = e.now.Add(d*time.Second - 1)
		require.NotEqual(t, "e2", e.pick(home).Endpoint(), d)
		e.now = e.now.Add(1)
		probe := e.pick(home)
		require.Equal(t, "e2", probe.Endpoint(), d)
		probe.Release(outcomeBad)
	}
}

// What was in flight before the verdict says nothing about the recovery, and
// does not keep the probe out.
func TestOldRequestsAreNotProbes(t *testing.T) {
	e := newEjecting(t, 4, Options{})
	home := e.homeOf("e2")
	old := []*Lease{e.pick(Request{Sticky: "e2"}), e.pick(Request{Sticky: "e2"})}
	e.at("e2", 5, outcomeBad)
	old[0].Release(outcomeGood)
	require.Equal(t, []string{"e2"}, e.aside(), "an old request that went well is no recovery")
	e.now = e.now.Add(defaultAside)
	probe := e.pick(home)
	require.Equal(t, "e2", probe.Endpoint())
	require.NotEqual(t, "e2", e.pick(home).Endpoint())
	old[1].Release(outcomeBad)
	require.Empty(t, e.aside(), "nor is one that failed a relapse")
	probe.Release(outcomeBad)
	require.Equal(t, []string{"e2"}, e.aside())
}

// An engine that hangs is set aside when nothing at all comes from it, and
// comes back with the first sign of life.
func TestStalledEndpoint(t *testing.T) {
	e := newEjecting(t, 4, Options{})
	one, two := e.pick(Request{Sticky: "e1"}), e.pick(Request{Sticky: "e1"})
	e.now = e.now.Add(time.Second)
	two.Progress()
	e.now = e.now.Add(time.Minute)
	one.Stalled()
	require.Empty(t, e.aside(), "it was heard of since: it is slow, it does not hang")
	three := e.pick(Request{Sticky: "e1"})
	e.now = e.now.Add(time.Minute)
	three.Stalled()
	require.Equal(t, []string{"e1"}, e.aside())
	two.Release(outcomeGood)
	require.Empty(t, e.aside())
}

func TestAsideOnRequest(t *testing.T) {
	e := newEjecting(t, 4, Options{})
	home := e.homeOf("e3")
	e.at("e3", 1, Outcome{Status: 503, Remote: true, Aside: 42 * time.Second})
	require.Equal(t, []string{"e3"}, e.aside())
	e.now = e.now.Add(41 * time.Second)
	e.at("e3", 1, Outcome{Status: 503, Remote: true, Aside: 10 * time.Second}) // asks for more
	e.now = e.now.Add(9 * time.Second)
	require.NotEqual(t, "e3", e.pick(home).Endpoint())
	e.now = e.now.Add(time.Second)
	require.Equal(t, "e3", e.pick(home).Endpoint())
}

// A standing survives leaving and coming back, like the counts do.
func TestStandingSurvivesLeaving(t *testing.T) {
	e := newEjecting(t, 4, Options{})
	e.at("e3", 5, outcomeBad)
	require.NoError(t, e.Set(fleetOf(3)))
	require.NoError(t, e.Set(fleetOf(4)))
	require.Equal(t, []string{"e3"}, e.aside())
	require.NoError(t, e.Set(fleetOf(3)))
	e.now = e.now.Add(time.Hour)
	require.NoError(t, e.Set(fleetOf(4)))
	e.pick(Request{Root: 1}).Release(outcomeGood)
	require.Empty(t, e.aside())
}

func TestUntried(t *testing.T) {
	e := newEjecting(t, 3, Options{})
	require.True(t, e.Untried(&Request{Tried: []string{"e0", "e1"}}))
	require.False(t, e.Untried(&Request{Tried: []string{"e0", "e1", "e2"}}))
	require.False(t, e.Untried(&Request{Sticky: "e0"}))
	e.at("e2", 5, outcomeBad)
	require.False(t, e.Untried(&Request{Tried: []string{"e0", "e1"}}), "one that is set aside is no alternative")
}

func TestEjectionOptionsAreChecked(t *testing.T) {
	for _, bad := range []Ejection{{Failures: -1}, {Time: -1}, {MaxTime: -1}} {
		_, err := New(Options{Ejection: &bad})
		require.ErrorContains(t, err, "Ejection")
	}
}

// Whatever happens in whatever order: a pick succeeds, at most half are held,
// never the only one, and once all goes well everything comes back.
func TestEjectionInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "endpoints")
		e := newEjecting(t, n, Options{Limit: rapid.SampledFrom([]int{0, 3}).Draw(rt, "limit")})
		var out []*Lease
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(rt, "step"); {
			case step < 4:
				lease, err := e.Pick(&Request{Root: rapid.Uint64Range(1, 50).Draw(rt, "key")})
				require.NoError(t, err)
				out = append(out, &lease)
			case step < 8 && len(out) > 0:
				i := rapid.IntRange(0, len(out)-1).Draw(rt, "lease")
				o := rapid.SampledFrom([]Outcome{outcomeGood, outcomeBad, outcomeBad, {}, {Status: 503, Remote: true, Aside: time.Minute}}).Draw(rt, "outcome")
				out[i].Release(o)
				out = append(out[:i], out[i+1:]...)
			case step == 8 && len(out) > 0:
				out[0].Stalled()
			default:
				e.now = e.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(rt, "seconds")) * time.Second)
			}
			held := 0
			for _, t := range e.tallies {
				if t.standing.held {
					held++
				}
			}
			require.LessOrEqual(t, held, n/2)
		}
		for _, l := range out {
			l.Release(outcomeGood)
		}
		e.now = e.now.Add(time.Hour)
		for root := uint64(1); root < 5000; root++ {
			e.pick(Request{Root: root}).Release(outcomeGood)
		}
		for _, s := range e.Stats() {
			require.Zero(t, s.InFlight)
			require.False(t, s.Aside)
		}
		for _, tally := range e.tallies {
			require.False(t, tally.standing.bad(), "%+v", tally.standing)
		}
	})
}
