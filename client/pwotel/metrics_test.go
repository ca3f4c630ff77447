package pwotel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/client/pwotel"
)

func TestMetrics(t *testing.T) {
	s := newSetup(t, 2, nil, client.WithRetries(1), client.WithEjection(nil))
	home, err := s.ask(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.stream(t.Context()))
	s.fleet.SetFault(s.index(home), fleettest.Fault{Status: 503})
	_, err = s.ask(t.Context()) // a failover
	require.NoError(t, err)
	for i := range 2 {
		s.fleet.SetFault(i, fleettest.Fault{Status: 503})
	}
	_, err = s.ask(t.Context()) // a failure
	require.Error(t, err)
	s.calls(4 + 6) // so the last is counted

	got := s.collect()
	require.Len(t, got, 6)
	for name, unit := range map[string]string{
		"gen_ai.client.operation.duration":            "s",
		"gen_ai.client.operation.time_to_first_chunk": "s",
		"gen_ai.client.token.usage":                   "{token}",
		"prefixwise.client.prompt_tokens":             "{token}",
		"prefixwise.client.cached_tokens":             "{token}",
		"prefixwise.client.attempts":                  "{attempt}",
	} {
		require.Equal(t, unit, got[name].Unit, name)
		require.NotEmpty(t, got[name].Description, name)
	}
	const common = "gen_ai.operation.name=chat,gen_ai.provider.name=vllm,gen_ai.request.model=sim"
	require.Equal(t, map[string]int64{common: 3, "error.type=503," + common: 1}, points(got["gen_ai.client.operation.duration"]))
	require.Equal(t, map[string]int64{common: 1}, points(got["gen_ai.client.operation.time_to_first_chunk"]))
	require.Equal(t, map[string]int64{common + ",gen_ai.token.type=input": 3, common + ",gen_ai.token.type=output": 3},
		points(got["gen_ai.client.token.usage"]))
	stats := s.client.Stats()
	require.NotZero(t, stats.CachedTokens)
	require.Equal(t, map[string]int64{common: int64(stats.PromptTokens)}, points(got["prefixwise.client.prompt_tokens"]))
	require.Equal(t, map[string]int64{common: int64(stats.CachedTokens)}, points(got["prefixwise.client.cached_tokens"]))
	require.Equal(t, map[string]int64{
		"prefixwise.overflow=false,prefixwise.reason=home":                   2,
		"error.type=503,prefixwise.overflow=false,prefixwise.reason=home":    2,
		"prefixwise.overflow=true,prefixwise.reason=failover":                1,
		"error.type=503,prefixwise.overflow=true,prefixwise.reason=failover": 1,
	}, points(got["prefixwise.client.attempts"]))

	duration := got["gen_ai.client.operation.duration"].Data.(metricdata.Histogram[float64])
	require.Equal(t, []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}, duration.DataPoints[0].Bounds)
	for _, p := range duration.DataPoints {
		require.Positive(t, p.Sum)
	}
	for _, p := range got["gen_ai.client.token.usage"].Data.(metricdata.Histogram[int64]).DataPoints {
		if kind, _ := p.Attributes.Value("gen_ai.token.type"); kind.AsString() == "output" {
			require.EqualValues(t, 3*8, p.Sum)
		}
	}
}

// Models that callers make up, and tenants, make no series.
func TestManyModelsAndTenants(t *testing.T) {
	adapters := make([]string, 40)
	for i := range adapters {
		adapters[i] = fmt.Sprint("adapter", i)
	}
	s := newSetup(t, 1, nil)
	for i := range 100 {
		_, err := s.client.CreateChatCompletion(client.WithTenant(t.Context(), fmt.Sprint("tenant", i)), question(fmt.Sprint("model", i)))
		require.Error(t, err)
	}
	require.Equal(t, map[string]int64{"error.type=404,gen_ai.operation.name=chat,gen_ai.provider.name=vllm,gen_ai.request.model=_OTHER": 100},
		points(s.collect()["gen_ai.client.operation.duration"]))

	fleet := fleettest.New(1, fleettest.Config{Model: "sim", Adapters: adapters, TimeScale: 1000})
	defer fleet.Close()
	c, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithObserver(s.observer))
	require.NoError(t, err)
	defer c.Close()
	for range 2 {
		for _, adapter := range adapters {
			_, err := c.CreateChatCompletion(t.Context(), question(adapter))
			require.NoError(t, err)
		}
	}
	s.calls(200 + 160)
	got := points(s.collect()["gen_ai.client.operation.duration"])
	require.Len(t, got, 1+32+1)
	require.EqualValues(t, 2, got["gen_ai.operation.name=chat,gen_ai.provider.name=vllm,gen_ai.request.model=adapter31"])
	require.EqualValues(t, 16, got["gen_ai.operation.name=chat,gen_ai.provider.name=vllm,gen_ai.request.model=_OTHER"])
}

func TestEndpointMetrics(t *testing.T) {
	s := newSetup(t, 1, []pwotel.Option{pwotel.WithEndpointMetrics()})
	home, err := s.ask(t.Context())
	require.NoError(t, err)
	host, port := addressOf(t, home)
	where := fmt.Sprintf("server.address=%s,server.port=%d", host, port)
	got := s.collect()
	require.Equal(t, map[string]int64{"prefixwise.overflow=false,prefixwise.reason=home," + where: 1}, points(got["prefixwise.client.attempts"]))
	require.Equal(t, map[string]int64{"gen_ai.operation.name=chat,gen_ai.provider.name=vllm,gen_ai.request.model=sim," + where: 1},
		points(got["gen_ai.client.operation.duration"]))
}
