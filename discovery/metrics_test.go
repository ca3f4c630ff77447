package discovery

import (
	"bytes"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told collects what OnMetrics is called with.
type told struct {
	mu    sync.Mutex
	last  map[string]Metrics
	times map[string]int
}

func (t *told) take(id string, m Metrics) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last[id] = m
	t.times[id]++
}

func metricsOnly(t *testing.T, f *engines, got *told, url string) Options {
	o := probing(t, f, url)
	o.HealthInterval, o.ModelsInterval = -1, -1
	got.last, got.times = map[string]Metrics{}, map[string]int{}
	o.OnMetrics = got.take
	return o
}

func TestMetricsAreReadEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, got := newEngines(), new(told)
		m := Metrics{Running: 2, PrefixQueries: 10, PromptTokens: 10, FirstTokens: 1, CacheTokens: 160}
		f.says("a:1 /metrics", 200, page("0", m)+page("1", m))
		o := metricsOnly(t, f, got, "http://a:1")
		o.Header = map[string][]string{"Authorization": {"Bearer secret"}}
		var wanted atomic.Bool
		wanted.Store(true)
		o.MetricsWanted = wanted.Load
		w := watch(t, o)
		advance(time.Minute)
		sum := m
		sum.add(m)
		got.mu.Lock()
		assert.Equal(t, map[string]Metrics{"a:1": sum}, stripScheme(got.last), "all engines behind one URL")
		assert.InDelta(t, 60, f.asked("a:1 /metrics"), 5)
		got.mu.Unlock()
		f.mu.Lock()
		assert.Empty(t, f.headers["a:1 /metrics"].Get("Authorization"))
		f.mu.Unlock()

		wanted.Store(false)
		advance(2 * time.Second)
		before := f.asked("a:1 /metrics")
		advance(time.Minute)
		assert.Equal(t, before, f.asked("a:1 /metrics"), "an idle client does not ask")
		require.NoError(t, w.Close())
	})
}

func stripScheme(in map[string]Metrics) map[string]Metrics {
	out := map[string]Metrics{}
	for id, m := range in {
		out[id[len("http://"):]] = m
	}
	return out
}

func TestMetricsOfRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, got := newEngines(), new(told)
		f.says("a:1 /metrics", 200, page("0", Metrics{Running: 1})+page("1", Metrics{Running: 7}))
		o := metricsOnly(t, f, got, "http://a:1")
		for i, r := range o.Resolvers {
			split, err := Ranks(r, 3)
			require.NoError(t, err)
			o.Resolvers[i] = split
		}
		w := watch(t, o)
		advance(3 * time.Second)
		require.NoError(t, w.Close())
		got.mu.Lock()
		defer got.mu.Unlock()
		assert.Equal(t, map[string]Metrics{"a:1#0": {Running: 1}, "a:1#1": {Running: 7}}, stripScheme(got.last),
			"each rank has its own engine; of the third nothing is known")
		assert.LessOrEqual(t, f.asked("a:1 /metrics"), 5, "one reading serves all ranks")
	})
}

// TestMetricsBackOff: an engine whose /metrics is closed is asked ever less, the
// log says so once, and it is asked at once when its health is back.
func TestMetricsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, got := newEngines(), new(told)
		f.says("a:1 /metrics", 403, "")
		var log bytes.Buffer
		o := metricsOnly(t, f, got, "http://a:1")
		o.HealthInterval = time.Second
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w := watch(t, o)
		advance(10 * time.Minute)
		assert.InDelta(t, 10+600/30, f.asked("a:1 /metrics"), 10)
		assert.Empty(t, got.last)

		f.fails("a:1 /health", errRefused)
		advance(time.Minute)
		f.says("a:1 /metrics", 200, page("0", Metrics{}))
		f.says("a:1 /health", 200, "")
		advance(5 * time.Second)
		got.mu.Lock()
		assert.Positive(t, got.times["http://a:1"], "read as soon as it is healthy again")
		got.mu.Unlock()
		require.NoError(t, w.Close())
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("metrics not read")), log.String())
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("metrics are read again")))
		assert.Contains(t, log.String(), "status 403")
	})
}
