package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scripted is a resolver whose answer the test sets, and that notes when it was asked.
type scripted struct {
	mu      sync.Mutex
	answer  []Endpoint
	err     error
	delay   time.Duration
	asked   []time.Time
	running int
	overlap bool
}

func (s *scripted) Resolve(ctx context.Context) ([]Endpoint, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	s.running++
	s.overlap = s.overlap || s.running > 1
	delay := s.delay
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Endpoint(nil), s.answer...), s.err
}

func (s *scripted) set(err error, urls ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.err = nil, err
	for _, u := range urls {
		e, bad := ParseURL(u)
		if bad != nil {
			panic(bad)
		}
		s.answer = append(s.answer, e)
	}
}

func (s *scripted) slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

func (s *scripted) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.asked...)
}

// heard notes the sets that OnChange was given.
type heard struct {
	mu   sync.Mutex
	sets []string
}

func (h *heard) onChange(members []Member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sets = append(h.sets, brevity(members))
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.sets...)
}

// brevity writes a set of http members as "a:1 b:2".
func brevity(members []Member) string {
	var out []string
	for _, m := range members {
		out = append(out, strings.TrimPrefix(m.ID, "http://"))
	}
	return strings.Join(out, " ")
}

// advance lets virtual time pass and everything settle.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// quiet are options without probes.
func quiet(h *heard, resolvers ...Resolver) Options {
	o := Options{Resolvers: resolvers, HealthInterval: -1, ModelsInterval: -1}
	if h != nil {
		o.OnChange = h.onChange
	}
	return o
}

func watch(t *testing.T, o Options) *Watcher {
	t.Helper()
	w, err := Watch(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.Close()) })
	return w
}

func TestWatchKeepsTheLastGoodSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := &scripted{}, &heard{}
		s.set(nil, "http://a:1", "http://b:1")
		w := watch(t, quiet(h, s))
		synctest.Wait()
		require.Equal(t, "a:1 b:1", brevity(w.Members()))
		for name, change := range map[string]func(){
			"an error":                 func() { s.set(errors.New("down")) },
			"NXDOMAIN":                 func() { s.set(notFound("x")) },
			"an empty answer":          func() { s.set(nil) },
			"nothing but refused ones": func() { s.set(nil, "http://169.254.169.254:1") },
			"no answer":                func() { s.set(nil, "http://c:1"); s.slow(time.Hour) },
		} {
			change()
			advance(10 * time.Minute)
			assert.Equal(t, "a:1 b:1", brevity(w.Members()), name)
			s.slow(0)
			s.set(nil, "http://b:1", "http://a:1")
			advance(2 * time.Minute)
		}
		assert.Equal(t, []string{"a:1 b:1"}, h.all(), "none of it was a change")
	})
}

func TestWatchDropsAfterTwoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := &scripted{}, &heard{}
		s.set(nil, "http://a:1", "http://b:1", "http://c:1")
		w := watch(t, quiet(h, s))
		advance(time.Second)

		s.set(nil, "http://a:1", "http://b:1") // once only
		for len(s.times()) == 1 {
			advance(100 * time.Millisecond)
		}
		s.set(nil, "http://a:1", "http://b:1", "http://c:1")
		advance(time.Minute)
		assert.Equal(t, []string{"a:1 b:1 c:1"}, h.all(), "one partial answer moves nothing")

		n := len(s.times())
		s.set(nil, "http://a:1", "http://d:1")
		for len(s.times()) == n {
			advance(100 * time.Millisecond)
		}
		assert.Equal(t, "a:1 b:1 c:1 d:1", brevity(w.Members()), "a new one joins at once")
		advance(1200 * time.Millisecond)
		assert.Equal(t, "a:1 d:1", brevity(w.Members()), "the others leave within about a second")
		assert.Equal(t, []string{"a:1 b:1 c:1", "a:1 b:1 c:1 d:1", "a:1 d:1"}, h.all())
	})
}

func TestWatchStartsWhileDNSIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := &scripted{}, &heard{}
		down := errors.New("server misbehaving")
		s.set(down)
		w := watch(t, quiet(h, s))
		assert.Empty(t, w.Members())

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := w.Ready(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, down, "it says why")
		// 1, 1.6, 2.6, 4.1 and 6.6 s, then every 10 s, each ±20 %.
		asked := len(s.times())
		assert.GreaterOrEqual(t, asked, 8)
		assert.LessOrEqual(t, asked, 13)
		assert.Empty(t, h.all(), "an empty set is never published")

		s.set(nil, "http://a:1")
		start := time.Now()
		require.NoError(t, w.Ready(t.Context()))
		assert.LessOrEqual(t, time.Since(start), 12*time.Second)
		assert.Equal(t, "a:1", brevity(w.Members()))
	})
}

func TestWatchJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		s.set(nil, "http://a:1")
		watch(t, quiet(nil, s))
		advance(time.Hour)
		times, gaps := s.times(), map[time.Duration]bool{}
		for i := 1; i < len(times); i++ {
			gap := times[i].Sub(times[i-1])
			assert.GreaterOrEqual(t, gap, 8*time.Second)
			assert.LessOrEqual(t, gap, 12*time.Second)
			gaps[gap] = true
		}
		assert.Greater(t, len(gaps), len(times)/2, "they are spread")
	})
}

func TestRefreshIsRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		s.set(nil, "http://a:1")
		o := quiet(nil, s)
		o.Interval = time.Hour
		w := watch(t, o)
		advance(time.Minute)
		require.Len(t, s.times(), 1)

		start := time.Now()
		w.Refresh()
		synctest.Wait()
		require.Len(t, s.times(), 2)
		assert.Equal(t, start, s.times()[1], "the first is honoured at once")
		for range 1000 {
			w.Refresh()
			advance(10 * time.Millisecond)
		}
		n := len(s.times()) - 2
		assert.GreaterOrEqual(t, n, 8, "10 s of calls")
		assert.LessOrEqual(t, n, 10)
		advance(time.Minute)
		times := s.times()
		for i := 2; i < len(times); i++ {
			assert.GreaterOrEqual(t, times[i].Sub(times[i-1]), time.Second)
		}
	})
}

func TestRefreshOnlyWithNegativeInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		s.set(errors.New("down"))
		o := quiet(nil, s)
		o.Interval = -1
		w := watch(t, o)
		advance(time.Minute)
		require.Greater(t, len(s.times()), 5, "asked until it works")
		s.set(nil, "http://a:1")
		advance(time.Minute)
		n := len(s.times())
		advance(time.Hour)
		require.Len(t, s.times(), n)
		w.Refresh()
		synctest.Wait()
		assert.Len(t, s.times(), n+1)
	})
}

func TestResolutionsNeverOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{delay: 3 * time.Second}
		s.set(nil, "http://a:1")
		o := quiet(nil, s)
		o.Interval = time.Second
		w := watch(t, o)
		for range 600 {
			w.Refresh()
			advance(100 * time.Millisecond)
		}
		assert.Greater(t, len(s.times()), 10)
		assert.False(t, s.overlap)
	})
}

func TestAStuckResolverDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, good, h := &scripted{delay: time.Hour}, &scripted{}, &heard{}
		good.set(nil, "http://a:1")
		watch(t, quiet(h, Join(stuck, good)))
		synctest.Wait()
		assert.Equal(t, []string{"a:1"}, h.all())
		advance(time.Minute)
		assert.GreaterOrEqual(t, len(stuck.times()), 2, "given up after 30 s and asked again")
		assert.GreaterOrEqual(t, len(good.times()), 5)
	})
}

func TestResolversMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, h := &scripted{}, &scripted{}, &heard{}
		one.set(nil, "http://a:1", "http://b:1")
		two.set(nil, "http://b:1", "http://c:1")
		two.answer[0].Weight = 9
		var log bytes.Buffer
		o := quiet(h, one, two)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w := watch(t, o)
		advance(10 * time.Minute)
		require.Equal(t, "a:1 b:1 c:1", brevity(w.Members()))
		assert.Zero(t, w.Members()[1].Weight, "the first wins")

		one.set(nil, "http://a:1")
		advance(time.Minute)
		require.Equal(t, "a:1 b:1 c:1", brevity(w.Members()))
		assert.Equal(t, uint32(9), w.Members()[1].Weight, "the second has it still")
		require.NoError(t, w.Close())
		assert.Equal(t, 1, strings.Count(log.String(), "two resolvers found the same endpoint"), "said once")
	})
}

func TestOnChangeIsSerialAndWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		s.set(nil, "http://a:1")
		var (
			mu      sync.Mutex
			running bool
			sets    []string
		)
		o := quiet(nil, s)
		o.Interval = time.Second
		o.OnChange = func(members []Member) {
			mu.Lock()
			assert.False(t, running)
			running = true
			sets = append(sets, brevity(members))
			mu.Unlock()
			<-time.After(30 * time.Second)
			mu.Lock()
			running = false
			mu.Unlock()
		}
		w := watch(t, o)
		synctest.Wait()
		for i := range 9 {
			s.set(nil, "http://a:1", fmt.Sprintf("http://b:%d", i+1))
			advance(3 * time.Second)
		}
		assert.Equal(t, "a:1 b:9", brevity(w.Members()), "a slow callback does not stop discovery")
		advance(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, []string{"a:1", "a:1 b:9"}, sets, "what came meanwhile is one change")
	})
}

func TestStaticSetIsThereWhenWatchReturns(t *testing.T) {
	fleet, err := Parse("http://b:1,http://a:1")
	require.NoError(t, err)
	h := &heard{}
	w := watch(t, quiet(h, fleet))
	assert.Equal(t, []string{"a:1 b:1"}, h.all())
	assert.Equal(t, "a:1 b:1", brevity(w.Members()))
	assert.NoError(t, w.Ready(t.Context()), "nothing to wait for without probes")
	w.Members()[0].ID = "changed"
	assert.Equal(t, "a:1 b:1", brevity(w.Members()), "the slice is the caller's")
}

func TestLinkLocalIsRefused(t *testing.T) {
	fleet, err := Static("http://10.0.0.1:1", "http://169.254.169.254:1")
	require.NoError(t, err)
	_, err = Watch(Options{Resolvers: []Resolver{fleet}})
	require.ErrorIs(t, err, ErrAddrRefused)
	o := quiet(nil, fleet)
	o.AllowLinkLocal = true
	assert.Len(t, watch(t, o).Members(), 2)

	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.a["h"] = addrs("10.0.0.1", "169.254.169.254", "::ffff:169.254.0.9")
		r, err := DNS("http://h:1", WithLookup(f))
		require.NoError(t, err)
		var log bytes.Buffer
		o := quiet(nil, r)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w := watch(t, o)
		advance(10 * time.Minute)
		assert.Equal(t, "10.0.0.1:1", brevity(w.Members()))
		require.NoError(t, w.Close())
		assert.Equal(t, 1, strings.Count(log.String(), "endpoints left out"), "said once")
	})
}

func TestAddressChangeKeepsTheIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.srv["v"] = srvs("pod-0.:1")
		f.a["pod-0."] = addrs("10.0.0.1")
		r, err := SRV("http", "v", WithLookup(f))
		require.NoError(t, err)
		h := &heard{}
		w := watch(t, quiet(h, r))
		advance(time.Second)
		f.set(func() { f.a["pod-0."] = addrs("10.0.0.2") })
		advance(15 * time.Second)
		require.Len(t, w.Members(), 1)
		assert.Equal(t, netip.MustParseAddrPort("10.0.0.2:1"), w.Members()[0].Addr)
		assert.Equal(t, []string{"pod-0:1", "pod-0:1"}, h.all(), "the move is a change, of one endpoint")
	})
}

func TestCustomResolversAreCompleted(t *testing.T) {
	e, err := ParseURL("http://H:80/v1")
	require.NoError(t, err)
	r := resolverFunc(func(context.Context) ([]Endpoint, error) {
		return []Endpoint{{URL: e.URL}, {ID: "no URL"}, {URL: e.URL}}, nil
	})
	w := watch(t, quiet(nil, r))
	require.NoError(t, w.Ready(t.Context()))
	require.Len(t, w.Members(), 1)
	assert.Equal(t, "http://h:80", w.Members()[0].ID)
	assert.Equal(t, NoRank, w.Members()[0].Rank)
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{delay: time.Hour}
		w := watch(t, quiet(nil, s))
		waiting := make(chan error)
		go func() { waiting <- w.Ready(context.Background()) }()
		synctest.Wait()
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() { assert.NoError(t, w.Close()) })
		}
		group.Wait()
		assert.ErrorIs(t, <-waiting, ErrClosed)
		assert.ErrorIs(t, w.Ready(t.Context()), ErrClosed)
		w.Refresh()
		assert.Empty(t, w.Members())
	})
}

func TestOptionsAreChecked(t *testing.T) {
	s := &scripted{}
	for want, o := range map[string]Options{
		"no resolver":       {Resolvers: []Resolver{nil}},
		"ResolveTimeout is": {Resolvers: []Resolver{s}, ResolveTimeout: -1},
		"HealthTimeout is":  {Resolvers: []Resolver{s}, HealthTimeout: -1},
		"DropAfter is -1":   {Resolvers: []Resolver{s}, DropAfter: -1},
		`write "/healthz"`:  {Resolvers: []Resolver{s}, HealthPath: "healthz"},
		"without a query":   {Resolvers: []Resolver{s}, HealthPath: "/health?x"},
	} {
		_, err := Watch(o)
		assert.ErrorContains(t, err, want)
	}
}
