package affinity

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// turn is a request of a conversation whose prompt has so many boundaries, each
// 8,000 bytes after the other.
func turn(conversation uint64, boundaries, previous int) Request {
	q := Request{Root: conversation, Previous: previous}
	for i := range boundaries {
		q.Boundaries = append(q.Boundaries, Boundary{Hash: mix(conversation<<20 + uint64(i)), Bytes: 8000 * (i + 1)})
	}
	return q
}

func TestConversationStaysWhereItIs(t *testing.T) {
	now := time.Unix(0, 0)
	r := newRouter(t, Options{Now: func() time.Time { return now }}, fleet(8)...)
	for c := uint64(1); c <= 50; c++ {
		where := ""
		for n := 1; n <= 5; n++ {
			q := turn(c, n, n-1)
			l, err := r.Pick(&q)
			require.NoError(t, err)
			if where != "" {
				require.Equal(t, where, l.Endpoint())
			}
			where = l.Endpoint()
			now = now.Add(10 * time.Second)
			l.Release(outcomeGood)
		}
	}
}

// TestIdleFleetIsUsedWhole: conversations that share a long head live all over
// the fleet also when there is no load that would spread them: its memory is
// what they need.
func TestIdleFleetIsUsedWhole(t *testing.T) {
	now := time.Unix(0, 0)
	r := newRouter(t, Options{Now: func() time.Time { return now }}, fleet(4)...)
	where := map[string]int{}
	for c := uint64(1); c <= 200; c++ {
		q := Request{Head: 7, Root: mix(c), Boundaries: []Boundary{{Hash: 7, Bytes: 40_000}, {Hash: mix(c), Bytes: 40_200}}}
		l, err := r.Pick(&q)
		require.NoError(t, err)
		require.Equal(t, ReasonHome, l.Reason())
		where[l.Endpoint()]++
		now = now.Add(10 * time.Second)
		l.Release(Outcome{Status: 200, PromptTokens: 10_050, CachedTokens: 10_000, FirstByte: time.Second})
	}
	for _, e := range fleet(4) {
		require.InDelta(t, 50, where[e.ID], 25)
	}
}

// question is one about a document of 10,000 tokens.
func question(document, i uint64) Request {
	own := mix(document<<20 + i)
	return Request{Head: document, Root: own, Boundaries: []Boundary{{Hash: document, Bytes: 40_000}, {Hash: own, Bytes: 40_200}}}
}

// seeHead lets a router see a head, so that another one is not the only one.
func seeHead(r *Router) { r.heads.note(1<<40, 1) }

// What begins with the only head that there is, is spread from the first request
// on; of several, each stays on one endpoint until it is in demand.
func TestTheOnlyHeadIsSpread(t *testing.T) {
	for _, several := range []bool{false, true} {
		r := newRouter(t, Options{IndexBytes: 1 << 16}, fleet(4)...)
		if several {
			seeHead(r)
		}
		homes := map[string]bool{}
		for i := range uint64(headUses) {
			homes[pick(t, r, question(1, i)).Home()] = true
		}
		require.Equal(t, several, len(homes) == 1, "%v", homes)
	}
}

// A document that came to live elsewhere than at home stays there: its next
// questions are no reason to compute it a second time.
func TestDocumentsStayWhereTheyAre(t *testing.T) {
	for document := uint64(1); document <= 20; document++ {
		r := newRouter(t, Options{IndexBytes: 1 << 16}, fleet(4)...)
		seeHead(r)
		q := question(document, 0)
		l := pick(t, r, q)
		home := l.Endpoint()
		l.Release(Outcome{Status: 503, Boundaries: q.Boundaries})
		q.Tried = []string{home}
		l = pick(t, r, q)
		l.Release(Outcome{Status: 200, PromptTokens: 10_050, CachedTokens: 0})
		for range 50 { // conversations whose turns come from everywhere
			r.later.add(1, turnMemory)
			r.strangers.add(1, turnMemory)
		}
		for i := range uint64(10) {
			next := pick(t, r, question(document, i+1))
			require.Equal(t, l.Endpoint(), next.Endpoint())
			require.Equal(t, home, next.Home())
			next.Release(Outcome{Status: 200, PromptTokens: 10_050, CachedTokens: 10_000})
		}
	}
}

// A document in the same message as the question makes each question a root of
// its own. Their homes are all over the fleet; the document is where it is.
func TestDocumentsInTheQuestionStayWhereTheyAre(t *testing.T) {
	for document := uint64(1); document <= 20; document++ {
		r := newRouter(t, Options{IndexBytes: 1 << 16}, fleet(4)...)
		where, homes := "", map[string]bool{}
		for i := range uint64(20) {
			q := question(document, i)
			q.Head = 0
			l := pick(t, r, q)
			if where != "" {
				require.Equal(t, where, l.Endpoint())
			}
			where, homes[l.Home()] = l.Endpoint(), true
			l.Release(Outcome{Status: 200, PromptTokens: 10_050, CachedTokens: 10_000})
		}
		require.Greater(t, len(homes), 1)
	}
}

// The first question that a process has about a document waits at home for a
// while: other processes have sent theirs there, or will.
func TestQuestionsWaitForTheirDocument(t *testing.T) {
	for document := uint64(1); document <= 20; document++ {
		at := func(wait float64) (reason Reason) {
			synctest.Test(t, func(t *testing.T) {
				r := newRouter(t, Options{IndexBytes: 1 << 12}, fleet(4)...)
				seeHead(r)
				q := question(document, 0)
				l := pick(t, r, q)
				l.Release(Outcome{Status: 503, Boundaries: q.Boundaries})
				r.tallies[l.Home()].bookings.add(r.clock(), wait)
				reason = pick(t, r, q).Reason()
			})
			return reason
		}
		require.Equal(t, ReasonHome, at(.9), "computing it takes 1 s")
		require.Equal(t, ReasonOverflowLoad, at(1.5), "but not for ever")
	}
}

func TestLoadedHomeIsLeft(t *testing.T) {
	now := time.Unix(0, 0)
	r := newRouter(t, Options{Now: func() time.Time { return now }}, fleet(8)...)
	q := turn(1, 2, 0)
	l, err := r.Pick(&q)
	require.NoError(t, err)
	home := l.Home()
	for _, e := range fleet(8) {
		r.Observe(e.ID, Gauges{Running: 1, PrefixQueries: 1, FirstTokens: 1, PromptTokens: 1})
	}
	now = now.Add(time.Second)
	for range 2 { // the first of a round is compared with old readings of the others
		for _, e := range fleet(8) {
			g := Gauges{Running: 1, PrefixQueries: 1000, FirstTokens: 2, PromptTokens: 1000}
			if e.ID == home {
				g.Waiting = 40
			}
			r.Observe(e.ID, g)
		}
	}
	q = turn(1, 2, 0)
	l, err = r.Pick(&q)
	require.NoError(t, err)
	require.Equal(t, home, l.Home())
	require.NotEqual(t, home, l.Endpoint())
	require.Equal(t, ReasonOverflowLoad, l.Reason())

	// Gauges that are too old say nothing any more.
	now = now.Add(time.Minute)
	q = turn(1, 3, 2)
	l, err = r.Pick(&q)
	require.NoError(t, err)
	require.Contains(t, []Reason{ReasonHome, ReasonCached}, l.Reason())
}

func TestAffineKeepsToLimitsAndTries(t *testing.T) {
	r := newRouter(t, Options{Limit: 2, OverLimit: OverLimitRefuse}, fleet(3)...)
	for range 6 {
		q := turn(1, 3, 2)
		_, err := r.Pick(&q)
		require.NoError(t, err)
	}
	q := turn(1, 3, 2)
	_, err := r.Pick(&q)
	require.ErrorIs(t, err, ErrOverLimit)

	r = newRouter(t, Options{}, fleet(3)...)
	var tried []string
	for range 3 {
		q := turn(1, 3, 2)
		q.Tried = tried
		l, err := r.Pick(&q)
		require.NoError(t, err)
		require.NotContains(t, tried, l.Endpoint())
		tried = append(tried, l.Endpoint())
	}
}

// What goes where it goes beyond the limit is there, and takes its time there,
// as well as anything.
func TestOverLimitIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes
		r := newRouter(t, Options{Limit: 1}, fleet(1)...)
		pick(t, r, Request{Sticky: fleet(1)[0].ID})
		l := pick(t, r, turn(1, 3, 0))
		require.Equal(t, ReasonOverLimit, l.Reason())
		require.EqualValues(t, 1, l.tally.bookings.open.Load())
		l = pick(t, r, turn(1, 4, 3))
		require.Equal(t, ReasonOverLimit, l.Reason())
		require.EqualValues(t, 24_000, l.plan.have)
		require.InDelta(t, .6, l.plan.wait, .01, "6,000 tokens")
	})
}

// An engine that was restarted, as its counters tell, has nothing of what it was
// sent before; the others still have.
func TestRestartIsForgotten(t *testing.T) {
	es := fleet(2)
	r := newRouter(t, Options{}, es...)
	counts := Gauges{PrefixQueries: 1000, PromptTokens: 1000, FirstTokens: 1}
	r.Observe(es[0].ID, counts)
	r.Observe(es[1].ID, counts)
	seen := map[string]uint64{}
	for c := uint64(1); len(seen) < 2; c++ {
		l := pick(t, r, turn(c, 1, 0))
		seen[l.Endpoint()] = c
		l.Release(outcomeGood)
	}
	r.Observe(es[0].ID, Gauges{})
	r.Observe(es[1].ID, counts)
	have := func(i int) int32 {
		q := turn(seen[es[i].ID], 2, 1)
		q.Tried = []string{es[1-i].ID}
		l := pick(t, r, q)
		l.Release(outcomeGood)
		require.Equal(t, es[i].ID, l.Endpoint())
		return l.plan.have
	}
	require.Zero(t, have(0))
	require.EqualValues(t, 8000, have(1))
	require.EqualValues(t, 16_000, have(0), "and it has again what it was sent since")
}

// Engines may restart at any moment of a pick (go test -race).
func TestRestartsDuringPicks(t *testing.T) {
	es := fleet(3)
	r := newRouter(t, Options{IndexBytes: 1 << 16}, es...)
	var wg sync.WaitGroup
	for g := range uint64(2) {
		wg.Go(func() {
			for i := range uint64(500) {
				q := turn(i%7, 3, 2)
				q.Last = es[(i+g)%3].ID
				pick(t, r, q).Release(Outcome{Status: 200, PromptTokens: 6000, CachedTokens: int(i % 2 * 4000)})
			}
		})
	}
	for i := range uint64(500) {
		r.Observe(es[i%3].ID, Gauges{PrefixQueries: i / 3 % 2})
	}
	wg.Wait()
	for _, e := range es {
		require.Zero(t, stats(t, r, e.ID).InFlight)
	}
}

func TestAffineDoesNotAllocate(t *testing.T) {
	for _, n := range []int{8, 256} {
		r := newRouter(t, Options{IndexBytes: 1 << 20}, fleet(n)...)
		for _, e := range fleet(n) {
			r.Observe(e.ID, Gauges{Running: 1, CacheTokens: 100_000})
		}
		q := turn(1, 30, 20)
		q.Head = q.Boundaries[0].Hash
		root := uint64(0)
		require.Zero(t, testing.AllocsPerRun(200, func() {
			root++
			q.Root, q.Last = root, ""
			if root%2 == 0 {
				q.Last = "http://10.0.0.3:8000"
			}
			l, err := r.Pick(&q)
			if err != nil {
				t.Fatal(err)
			}
			l.Release(Outcome{Status: 200, PromptTokens: 60_000, CachedTokens: 1000, FirstByte: time.Second})
		}))
	}
}

func BenchmarkAffine(b *testing.B) {
	for _, n := range []int{8, 256} {
		for _, boundaries := range []int{4, 30} {
			b.Run(fmt.Sprintf("endpoints=%d/boundaries=%d", n, boundaries), func(b *testing.B) {
				r := newRouter(b, Options{}, fleet(n)...)
				for _, e := range fleet(n) {
					r.Observe(e.ID, Gauges{Running: 1, CacheTokens: 1_000_000})
				}
				q := turn(1, boundaries, boundaries-2)
				q.Head = q.Boundaries[0].Hash
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					q.Root = uint64(i + 1)
					l, _ := r.Pick(&q)
					l.Release(outcomeGood)
				}
			})
		}
	}
}

// Where a head may live on two endpoints and one of these is down, those at home on
// the other stay there, though a third one takes the place of the first.
func TestOneThatIsDownTakesOnlyItsOwnAlong(t *testing.T) {
	es := fleet(6)
	r := newRouter(t, Options{IndexBytes: 1 << 16}, es...)
	seeHead(r)
	ask := func(root uint64) *Lease {
		l := pick(t, r, Request{Head: 9, Root: root, Boundaries: []Boundary{{Hash: 9, Bytes: 40_000}, {Hash: mix(root), Bytes: 40_200}}})
		l.Release(Outcome{Status: 200, PromptTokens: 10_050, CachedTokens: 10_000})
		return l
	}
	root := uint64(1)
	for ; root <= 2*headUses; root++ { // so often for two copies
		ask(root)
	}
	homes := map[string]bool{}
	for ; root <= 2*headUses+5; root++ {
		homes[ask(root).Home()] = true
	}
	require.Len(t, homes, 2)
	for i := range es {
		if homes[es[i].ID] {
			es[i].Unavailable = true
			delete(homes, es[i].ID)
			break
		}
	}
	require.NoError(t, r.Set(es))
	stay := 0
	for ; root < 4*headUses; root++ {
		l := ask(root)
		if homes[l.Home()] {
			stay++
			require.Equal(t, l.Home(), l.Endpoint())
			require.Equal(t, ReasonHome, l.Reason())
		}
	}
	require.Positive(t, stay)
}
