package pwprom_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/client/pwprom"
	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/middleware"
)

func TestSuccessAndStream(t *testing.T) {
	s := newSetup(t, 2)
	home, err := s.ask()
	require.NoError(t, err)
	require.NoError(t, s.stream(t.Context()))
	s.requireSeries(map[string]float64{
		`prefixwise_call_duration_seconds_count{outcome=ok}`:            2,
		`prefixwise_call_duration_seconds_count{outcome=failed}`:        0,
		`prefixwise_call_duration_seconds_count{outcome=refused}`:       0,
		`prefixwise_call_duration_seconds_count{outcome=canceled}`:      0,
		`prefixwise_time_to_first_token_seconds_count{outcome=ok}`:      1,
		`prefixwise_completion_tokens_total`:                            16,
		`prefixwise_failovers_total`:                                    0,
		`prefixwise_endpoints`:                                          2,
		`prefixwise_endpoint_requests_total{endpoint=` + home + `}`:     2,
		`prefixwise_endpoint_in_flight{endpoint=` + home + `}`:          0,
		`prefixwise_endpoint_failures_total{endpoint=` + home + `}`:     0,
		`prefixwise_endpoint_ejections_total{endpoint=` + home + `}`:    0,
		`prefixwise_endpoint_set_aside{endpoint=` + home + `}`:          0,
		`prefixwise_time_to_first_token_seconds_count{outcome=failed}`:  0,
		`prefixwise_time_to_first_token_seconds_count{outcome=refused}`: 0,
	})
	got, stats := s.series(), s.client.Stats()
	require.NotZero(t, stats.CachedTokens, "the second question is the first")
	require.EqualValues(t, stats.PromptTokens, got["prefixwise_prompt_tokens_total"])
	require.EqualValues(t, stats.CachedTokens, got["prefixwise_cached_tokens_total"])
	require.EqualValues(t, stats.PromptTokens, got["prefixwise_endpoint_prompt_tokens_total{endpoint="+home+"}"])
	require.EqualValues(t, stats.CachedTokens, got["prefixwise_endpoint_cached_tokens_total{endpoint="+home+"}"])
}

func TestOverflow(t *testing.T) {
	s := newSetup(t, 2, client.WithLimit(1))
	home, err := s.ask()
	require.NoError(t, err)
	s.fleet.SetFault(s.index(home), fleettest.Fault{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.stream(ctx) }()
	s.requireSeries(map[string]float64{`prefixwise_endpoint_in_flight{endpoint=` + home + `}`: 1})
	other, err := s.ask()
	require.NoError(t, err)
	require.NotEqual(t, home, other)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	s.requireSeries(map[string]float64{
		`prefixwise_endpoint_overflows_total{endpoint=` + other + `,reason=overflow-full}`: 1,
		`prefixwise_endpoint_requests_total{endpoint=` + other + `}`:                       1,
		`prefixwise_endpoint_in_flight{endpoint=` + home + `}`:                             0,
		`prefixwise_call_duration_seconds_count{outcome=canceled}`:                         1,
		`prefixwise_call_duration_seconds_count{outcome=ok}`:                               2,
	})
	for name := range s.series() {
		require.False(t, strings.HasPrefix(name, "prefixwise_failures_total"), "nothing has failed: %s", name)
	}
}

func TestFailover(t *testing.T) {
	s := newSetup(t, 2)
	home, err := s.ask()
	require.NoError(t, err)
	s.fleet.SetFault(s.index(home), fleettest.Fault{Status: 503})
	other, err := s.ask()
	require.NoError(t, err)
	require.NotEqual(t, home, other)
	s.requireSeries(map[string]float64{
		`prefixwise_retries_total{cause=503}`:                                         1,
		`prefixwise_failovers_total`:                                                  1,
		`prefixwise_call_duration_seconds_count{outcome=ok}`:                          2,
		`prefixwise_endpoint_failures_total{endpoint=` + home + `}`:                   1,
		`prefixwise_endpoint_failures_total{endpoint=` + other + `}`:                  0,
		`prefixwise_endpoint_overflows_total{endpoint=` + other + `,reason=failover}`: 1,
	})
}

func TestFailure(t *testing.T) {
	s := newSetup(t, 1, client.WithRetries(1), client.WithEjection(nil))
	s.fleet.SetFault(0, fleettest.Fault{Status: 500})
	_, err := s.ask()
	require.Error(t, err)
	s.fleet.SetFault(0, fleettest.Fault{Stream: fleettest.StreamCut, AfterTokens: 2})
	require.Error(t, s.stream(t.Context()))
	s.fleet.Kill(0)
	_, err = s.ask()
	require.Error(t, err)
	id := s.client.Stats().Endpoints[0].ID
	s.requireSeries(map[string]float64{
		`prefixwise_call_duration_seconds_count{outcome=refused}`:      1,
		`prefixwise_call_duration_seconds_count{outcome=failed}`:       2,
		`prefixwise_time_to_first_token_seconds_count{outcome=failed}`: 1,
		`prefixwise_failures_total{cause=500}`:                         1,
		`prefixwise_failures_total{cause=connection_lost}`:             1,
		`prefixwise_failures_total{cause=connect}`:                     1,
		`prefixwise_retries_total{cause=500}`:                          1,
		`prefixwise_retries_total{cause=connect}`:                      1,
		`prefixwise_failovers_total`:                                   0,
		`prefixwise_endpoint_failures_total{endpoint=` + id + `}`:      5,
	})
}

// Times are in seconds, and what a caller or an engine says is no label.
func TestHistogramsAndLabels(t *testing.T) {
	metrics := pwprom.New()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	done := metrics.Trace().Done
	done(middleware.Done{Attempts: 1, Status: 200, FirstByte: 250 * time.Millisecond, Total: 3 * time.Second, CompletionTokens: 7})
	before := len(gather(t, registry))
	for i := range 100 {
		done(middleware.Done{Attempts: 1, Status: 200, Model: fmt.Sprint("model", i), Endpoint: fmt.Sprint("endpoint", i),
			FirstByte: 250 * time.Millisecond, Total: 3 * time.Second, PromptTokens: -1, CachedTokens: -1, CompletionTokens: -1})
		done(middleware.Done{Attempts: 1, Model: fmt.Sprint("model", i), Err: errors.New(fmt.Sprint("cause", i)), Total: time.Minute, CompletionTokens: -1})
	}
	require.Len(t, gather(t, registry), before+1, "one cause more")

	families, err := registry.Gather()
	require.NoError(t, err)
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	ok := func(name string) *dto.Histogram {
		for _, m := range byName[name].Metric {
			if m.Label[0].GetValue() == "ok" {
				return m.GetHistogram()
			}
		}
		return nil
	}
	first := ok("prefixwise_time_to_first_token_seconds")
	require.InDelta(t, 101*.25, first.GetSampleSum(), 1e-9)
	require.Equal(t, .01, first.Bucket[0].GetUpperBound())
	require.Equal(t, 327.68, first.Bucket[len(first.Bucket)-1].GetUpperBound())
	require.Equal(t, .16, first.Bucket[4].GetUpperBound())
	require.Zero(t, first.Bucket[4].GetCumulativeCount())
	require.EqualValues(t, 101, first.Bucket[5].GetCumulativeCount())
	require.InDelta(t, 303, ok("prefixwise_call_duration_seconds").GetSampleSum(), 1e-9)
}

// A call that its caller gave up is no failure, and no failover.
func TestCanceled(t *testing.T) {
	metrics := pwprom.New()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	metrics.Trace().Done(middleware.Done{Attempts: 2, Err: fmt.Errorf("call: %w", context.Canceled), FirstByte: time.Second, Total: time.Minute})
	got := gather(t, registry)
	require.EqualValues(t, 1, got["prefixwise_call_duration_seconds_count{outcome=canceled}"])
	require.EqualValues(t, 1, got["prefixwise_time_to_first_token_seconds_count{outcome=canceled}"])
	require.Zero(t, got["prefixwise_failovers_total"])
	require.NotContains(t, got, "prefixwise_failures_total{cause=canceled}")
}

// Models and tenants by the hundred make no more series than one of each.
func TestManyModelsAndTenants(t *testing.T) {
	s := newSetup(t, 2, client.WithStrategy(client.RoundRobin))
	for range 2 {
		_, err := s.ask()
		require.NoError(t, err)
		_, err = s.client.CreateChatCompletion(t.Context(), question("unknown"))
		require.Error(t, err)
	}
	before := s.series()
	for i := range 100 {
		ctx := client.WithSession(client.WithTenant(t.Context(), fmt.Sprint("tenant", i)), fmt.Sprint("session", i))
		_, err := s.client.CreateChatCompletion(ctx, question("sim"))
		require.NoError(t, err)
		_, err = s.client.CreateChatCompletion(ctx, question(fmt.Sprint("model", i)))
		require.Error(t, err)
	}
	after := s.series()
	require.Len(t, after, len(before))
	require.EqualValues(t, 102, after[`prefixwise_failures_total{cause=404}`])
}

// fickle is a fleet whose members change at will.
type fickle struct {
	present atomic.Pointer[[]discovery.Endpoint]
}

func (f *fickle) Resolve(context.Context) ([]discovery.Endpoint, error) {
	return *f.present.Load(), nil
}

// The series of an endpoint leave with it, and return with their counts.
func TestEndpointsLeaveAndReturn(t *testing.T) {
	fleet := fleettest.New(2, configuration)
	t.Cleanup(fleet.Close)
	all, err := discovery.Static(fleet.URLs()...)
	require.NoError(t, err)
	both, err := all.Resolve(t.Context())
	require.NoError(t, err)
	resolver := &fickle{}
	resolver.present.Store(&both)
	s := dial(t, fleet, client.WithResolver(resolver), client.WithResolveInterval(time.Millisecond), client.WithStrategy(client.RoundRobin))
	for range 4 {
		_, err := s.ask()
		require.NoError(t, err)
	}
	gone := both[1].ID
	count := func() int {
		n := 0
		for name := range s.series() {
			if strings.Contains(name, gone) {
				n++
			}
		}
		return n
	}
	requests := `prefixwise_endpoint_requests_total{endpoint=` + gone + `}`
	s.requireSeries(map[string]float64{requests: 2, `prefixwise_endpoints`: 2})
	one := both[:1]
	resolver.present.Store(&one)
	require.Eventually(t, func() bool { return count() == 0 }, 10*time.Second, time.Millisecond)
	s.requireSeries(map[string]float64{`prefixwise_endpoints`: 1})
	resolver.present.Store(&both)
	s.requireSeries(map[string]float64{requests: 2, `prefixwise_endpoints`: 2})
	for range 2 {
		_, err := s.ask()
		require.NoError(t, err)
	}
	s.requireSeries(map[string]float64{requests: 3})
}

func TestHealth(t *testing.T) {
	fleet := fleettest.New(2, configuration)
	t.Cleanup(fleet.Close)
	metrics := pwprom.New()
	c, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithHealthChecks(time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	metrics.Watch(c)
	s := &setup{t: t, fleet: fleet, client: c, registry: prometheus.NewPedanticRegistry()}
	s.registry.MustRegister(metrics)
	id := func(i int) string { return strings.TrimSuffix(fleet.URL(i), "/v1") }
	s.requireSeries(map[string]float64{
		`prefixwise_endpoint_healthy{endpoint=` + id(0) + `}`: 1,
		`prefixwise_endpoint_healthy{endpoint=` + id(1) + `}`: 1,
	})
	fleet.SetFault(1, fleettest.Fault{Unhealthy: true})
	s.requireSeries(map[string]float64{
		`prefixwise_endpoint_healthy{endpoint=` + id(0) + `}`: 1,
		`prefixwise_endpoint_healthy{endpoint=` + id(1) + `}`: 0,
	})
}

func TestEjection(t *testing.T) {
	s := newSetup(t, 2)
	home, err := s.ask()
	require.NoError(t, err)
	s.fleet.SetFault(s.index(home), fleettest.Fault{Status: 500})
	for range 6 {
		_, err := s.ask()
		require.NoError(t, err)
	}
	s.requireSeries(map[string]float64{
		`prefixwise_endpoint_ejections_total{endpoint=` + home + `}`: 1,
		`prefixwise_endpoint_set_aside{endpoint=` + home + `}`:       1,
	})
}

// Two clients share a registry when their Collectors are told apart by a label.
func TestTwoClients(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"chat", "batch"} {
		metrics := pwprom.New()
		labelled := prometheus.WrapRegistererWith(prometheus.Labels{"client": name}, registry)
		require.NoError(t, labelled.Register(metrics))
		require.Error(t, labelled.Register(metrics), "twice is a mistake")
		metrics.Trace().Done(middleware.Done{Err: io.EOF})
	}
	got := gather(t, registry)
	require.EqualValues(t, 1, got["prefixwise_failures_total{cause=other,client=chat}"])
	require.EqualValues(t, 1, got["prefixwise_failures_total{cause=other,client=batch}"])
}
