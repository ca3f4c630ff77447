package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// engines answers probes in process, by host.
type engines struct {
	mu      sync.Mutex
	answer  map[string]func(*http.Request) (int, string, error) // by "host path"
	delay   map[string]time.Duration
	count   map[string]int
	headers map[string]http.Header
}

func newEngines() *engines {
	return &engines{
		answer: map[string]func(*http.Request) (int, string, error){}, delay: map[string]time.Duration{},
		count: map[string]int{}, headers: map[string]http.Header{},
	}
}

// says sets what a host answers on a path: a status and a body.
func (f *engines) says(key string, status int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer[key] = func(*http.Request) (int, string, error) { return status, body, nil }
}

func (f *engines) fails(key string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer[key] = func(*http.Request) (int, string, error) { return 0, "", err }
}

func (f *engines) slow(key string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay[key] = d
}

func (f *engines) asked(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[key]
}

func (f *engines) RoundTrip(r *http.Request) (*http.Response, error) {
	key := r.URL.Host + " " + r.URL.Path
	f.mu.Lock()
	f.count[key]++
	f.headers[key] = r.Header.Clone()
	answer, delay := f.answer[key], f.delay[key]
	f.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	status, body := http.StatusOK, ""
	if answer != nil {
		var err error
		if status, body, err = answer(r); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// probing are options with health probes through f, and without models.
func probing(t *testing.T, f *engines, urls ...string) Options {
	t.Helper()
	fleet, err := Static(urls...)
	require.NoError(t, err)
	return Options{
		Resolvers: []Resolver{fleet}, ModelsInterval: -1,
		Transport: func(Endpoint) http.RoundTripper { return f },
	}
}

func health(w *Watcher) string {
	var out []string
	for _, m := range w.Members() {
		out = append(out, m.Health.String())
	}
	return strings.Join(out, " ")
}

var errRefused = errors.New("connection refused")

func TestHealthVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		var log bytes.Buffer
		o := probing(t, f, "http://a:1", "http://b:1")
		var changes []string
		var mu sync.Mutex
		o.OnChange = func(ms []Member) {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, ms[0].Health.String()+" "+ms[1].Health.String())
		}
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w := watch(t, o)
		synctest.Wait()
		require.Equal(t, "healthy healthy", health(w), "the first pass counts at once")
		healthySince := w.Members()[0].Since

		f.says("b:1 /health", 503, "")
		down := time.Now()
		for health(w) != "healthy unhealthy" {
			advance(100 * time.Millisecond)
			require.Less(t, time.Since(down), time.Minute)
		}
		assert.LessOrEqual(t, time.Since(down), 9*time.Second, "an interval, and two confirmations of a second")
		assert.GreaterOrEqual(t, f.asked("b:1 /health"), 4, "one pass and three failures")
		assert.ErrorContains(t, w.Members()[1].HealthErr, "503")
		assert.Equal(t, healthySince, w.Members()[0].Since)
		assert.WithinDuration(t, time.Now(), w.Members()[1].Since, 100*time.Millisecond)

		f.says("b:1 /health", 200, "")
		up := time.Now()
		for health(w) != "healthy healthy" {
			advance(100 * time.Millisecond)
			require.Less(t, time.Since(up), time.Minute)
		}
		assert.LessOrEqual(t, time.Since(up), 8*time.Second)
		assert.NoError(t, w.Members()[1].HealthErr)

		advance(time.Hour) // probes go on (bufbuild/httplb#69), and are no news
		assert.InDelta(t, 3600/5, f.asked("a:1 /health"), 40)
		require.NoError(t, w.Close())
		mu.Lock()
		defer mu.Unlock()
		tail := changes[len(changes)-3:]
		assert.Equal(t, []string{"healthy healthy", "healthy unhealthy", "healthy healthy"}, tail)
		assert.Equal(t, 1, strings.Count(log.String(), "is unhealthy"))
	})
}

func TestASlowHealthAnswerIsNotDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		f.slow("a:1 /health", 4*time.Second)
		o := probing(t, f, "http://a:1")
		o.HealthInterval = 30 * time.Second
		w := watch(t, o)
		advance(10 * time.Minute)
		assert.Equal(t, "healthy", health(w))

		f.slow("a:1 /health", time.Hour)
		before := f.asked("a:1 /health")
		start := time.Now()
		for health(w) != "unhealthy" {
			advance(100 * time.Millisecond)
			require.Less(t, time.Since(start), 5*time.Minute)
		}
		assert.GreaterOrEqual(t, time.Since(start), time.Minute, "timeouts are not confirmed in a hurry")
		assert.LessOrEqual(t, f.asked("a:1 /health")-before, 4)
		assert.ErrorContains(t, w.Members()[0].HealthErr, "no answer within 5s")
	})
}

func TestAHungEndpointDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		urls := []string{}
		for i := range 200 {
			host := fmt.Sprintf("hung-%03d:1", i)
			f.slow(host+" /health", time.Hour)
			f.slow(host+" /v1/models", time.Hour)
			urls = append(urls, "http://"+host)
		}
		urls = append(urls, "http://z:1")
		o := probing(t, f, urls...)
		o.ModelsInterval = 0
		w := watch(t, o)
		last := func() Member { return w.Members()[200] }
		// 401 probes of 402 hang, 32 start at a time, each holds its slot for 0.1 s.
		advance(1300 * time.Millisecond)
		require.Equal(t, Healthy, last().Health)
		n := f.asked("z:1 /health")
		advance(2 * time.Minute)
		assert.InDelta(t, 120/5, f.asked("z:1 /health")-n, 6, "nearly every probe in time")
		assert.Equal(t, Healthy, last().Health)
		assert.Equal(t, Unhealthy, w.Members()[0].Health)
	})
}

func TestProbesStartInBoundedNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		urls := []string{}
		for i := range 100 {
			host := fmt.Sprintf("h%03d:1", i)
			f.slow(host+" /health", time.Hour)
			urls = append(urls, "http://"+host)
		}
		watch(t, probing(t, f, urls...))
		started := func() (n int) {
			for _, u := range urls {
				n += f.asked(strings.TrimPrefix(u, "http://") + " /health")
			}
			return n
		}
		synctest.Wait()
		assert.Equal(t, probesAtOnce, started())
		advance(slotTime)
		assert.Equal(t, 2*probesAtOnce, started())
	})
}

func TestAnEngineWithoutHealthPathIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{404, 405, 501, 401, 403} {
			f := newEngines()
			f.says("a:1 /health", status, "")
			var log bytes.Buffer
			o := probing(t, f, "http://a:1")
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			w := watch(t, o)
			require.NoError(t, w.Ready(t.Context()), "there is no verdict to wait for")
			advance(time.Hour)
			assert.Equal(t, "unknown", health(w), "%d", status)
			assert.ErrorIs(t, w.Members()[0].HealthErr, ErrNoHealthPath)
			require.NoError(t, w.Close())
			assert.Equal(t, 1, strings.Count(log.String(), "has no health path"), "said once")
		}
	})
}

func TestANotFoundAfterHealthIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		w := watch(t, probing(t, f, "http://a:1"))
		advance(time.Second)
		f.says("a:1 /health", 404, "default backend")
		advance(time.Minute)
		assert.Equal(t, "unhealthy", health(w), "a gateway lost the engine behind it")
	})
}

func TestReadyWaitsForTheFirstGoodProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		f.fails("a:1 /health", errRefused)
		f.fails("b:1 /health", errRefused)
		w := watch(t, probing(t, f, "http://a:1", "http://b:1"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := w.Ready(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, errRefused)
		assert.ErrorContains(t, err, "none of 2 endpoints is ready")
		assert.Equal(t, "unhealthy unhealthy", health(w))

		f.says("b:1 /health", 200, "")
		start := time.Now()
		require.NoError(t, w.Ready(t.Context()))
		assert.LessOrEqual(t, time.Since(start), 8*time.Second)
		assert.Equal(t, "unhealthy healthy", health(w))
	})
}

func TestHealthPathAndPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		o := probing(t, f, "http://a:1/team/v1")
		o.HealthPath, o.ModelsInterval = "/ping", 0
		w := watch(t, o)
		synctest.Wait()
		assert.Equal(t, 1, f.asked("a:1 /team/ping"))
		assert.Equal(t, 1, f.asked("a:1 /team/v1/models"))
		assert.Equal(t, "healthy", health(w))
	})
}

// Whether an endpoint takes connections can change while its verdict stays, and
// whoever waits for an answer from there wants to know.
func TestRefusesIsHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		o := probing(t, f, "http://a:1")
		var heard []string
		o.OnChange = func(m []Member) { heard = append(heard, fmt.Sprint(m[0].Health, " ", m[0].Refuses)) }
		w := watch(t, o)
		step := func(want string, change func()) {
			t.Helper()
			change()
			advance(time.Minute)
			require.Equal(t, want, strings.Join(heard, ", "))
			require.Equal(t, heard[len(heard)-1], fmt.Sprint(w.Members()[0].Health, " ", w.Members()[0].Refuses))
			heard = nil
		}
		refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		advance(time.Minute)
		// The first probe may have answered before the first call.
		require.Equal(t, "healthy false", heard[len(heard)-1])
		heard = nil
		step("unhealthy false", func() { f.fails("a:1 /health", errors.New("reset")) })
		step("unhealthy true", func() { f.fails("a:1 /health", fmt.Errorf("connect: %w", refused)) })
		step("unhealthy false", func() { f.fails("a:1 /health", &net.OpError{Op: "read", Err: syscall.ECONNRESET}) })
		step("healthy false", func() { f.says("a:1 /health", 200, "") })
		step("healthy true, unhealthy true", func() { f.fails("a:1 /health", refused) })
	})
}

func TestRanksShareTheirProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		o := probing(t, f, "http://a:1")
		var err error
		o.Resolvers[0], err = Ranks(o.Resolvers[0], 8)
		require.NoError(t, err)
		made := 0
		o.Transport = func(Endpoint) http.RoundTripper { made++; return f }
		w := watch(t, o)
		synctest.Wait()
		assert.Len(t, w.Members(), 8)
		assert.Equal(t, strings.TrimSpace(strings.Repeat("healthy ", 8)), health(w))
		assert.Equal(t, 1, f.asked("a:1 /health"))
		assert.Equal(t, 1, made)
	})
}

func TestAMemberThatLeavesIsProbedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newEngines(), &scripted{}
		s.set(nil, "http://a:1", "http://b:1")
		w := watch(t, Options{Resolvers: []Resolver{s}, Transport: func(Endpoint) http.RoundTripper { return f }})
		advance(time.Second)
		f.slow("b:1 /health", 4*time.Second) // one is under way when it leaves
		s.set(nil, "http://a:1")
		advance(time.Minute)
		require.Equal(t, "a:1", brevity(w.Members()))
		n := f.asked("b:1 /health") + f.asked("b:1 /v1/models")
		advance(time.Hour)
		assert.Equal(t, n, f.asked("b:1 /health")+f.asked("b:1 /v1/models"))
	})
}

func TestAMoveStartsWithUnknownHealthAndTheOldModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := newEngines(), newFake()
		f.says("pod-0:1 /v1/models", 200, `{"data":[{"id":"m"}]}`)
		r.srv["v"], r.a["pod-0."] = srvs("pod-0.:1"), addrs("10.0.0.1")
		s, err := SRV("http", "v", WithLookup(r))
		require.NoError(t, err)
		var mu sync.Mutex
		var dialled []string
		w := watch(t, Options{Resolvers: []Resolver{s}, Transport: func(e Endpoint) http.RoundTripper {
			mu.Lock()
			defer mu.Unlock()
			dialled = append(dialled, e.DialAddress())
			return f
		}})
		advance(time.Second)
		require.Equal(t, "healthy", health(w))
		f.slow("pod-0:1 /health", 2*time.Second)
		f.slow("pod-0:1 /v1/models", 2*time.Second)
		r.set(func() { r.a["pod-0."] = addrs("10.0.0.2") })
		for w.Members()[0].Addr.Addr() != addrs("10.0.0.2")[0] {
			advance(100 * time.Millisecond)
		}
		assert.Equal(t, Unknown, w.Members()[0].Health, "what is known of the old address does not count")
		assert.Equal(t, []string{"m"}, w.Members()[0].Models, "the old list is the better guess")
		advance(5 * time.Second)
		assert.Equal(t, "healthy", health(w))
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, []string{"10.0.0.1:1", "10.0.0.2:1"}, dialled)
	})
}

// stuckBody never ends and, unlike net/http's, knows nothing of the request's context.
type stuckBody struct{ closed chan struct{} }

func (b stuckBody) Read([]byte) (int, error) { <-b.closed; return 0, errors.New("closed") }
func (b stuckBody) Close() error {
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	return nil
}

type stuckTransport struct{}

func (stuckTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: stuckBody{make(chan struct{})}, Request: r}, nil
}

func TestABodyThatNeverEndsIsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := probing(t, newEngines(), "http://a:1")
		o.Transport = func(Endpoint) http.RoundTripper { return stuckTransport{} }
		w := watch(t, o)
		advance(time.Minute)
		assert.Equal(t, "unhealthy", health(w))
		assert.ErrorContains(t, w.Members()[0].HealthErr, "no answer within")
		advance(11 * time.Second)
	})
}
