package pwprom_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/client/pwprom"
)

// A setup is a simulated fleet, a client with a Collector, and its registry.
type setup struct {
	t        *testing.T
	fleet    *fleettest.Fleet
	client   *client.Client
	registry *prometheus.Registry
}

// configuration makes instances a thousand times as fast as real ones.
var configuration = fleettest.Config{Model: "sim", TimeScale: 1000}

func newSetup(t *testing.T, n int, opts ...client.Option) *setup {
	t.Helper()
	fleet := fleettest.New(n, configuration)
	t.Cleanup(fleet.Close)
	return dial(t, fleet, append(opts, client.WithEndpoints(fleet.URLs()...))...)
}

func dial(t *testing.T, fleet *fleettest.Fleet, opts ...client.Option) *setup {
	t.Helper()
	metrics := pwprom.New()
	// The default strategy may leave the home of an idle fleet for reasons of
	// time; this one does not.
	opts = append([]client.Option{client.WithStrategy(client.BoundedLoad)}, opts...)
	c, err := client.New(append(opts, client.WithObserver(metrics.Trace()), client.WithHealthChecks(0), client.WithModelChecks(0))...)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.Ready(t.Context()))
	metrics.Watch(c)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	return &setup{t, fleet, c, registry}
}

// prompt fills some blocks of the engines' caches.
var prompt = strings.Repeat("It is always the same text that is asked about. ", 20)

func question(model string) openai.ChatCompletionRequest {
	return openai.ChatCompletionRequest{Model: model, MaxCompletionTokens: 8,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: prompt}}}
}

// ask makes a plain call and returns the identity of the endpoint that served it.
func (s *setup) ask() (string, error) {
	resp, err := s.client.CreateChatCompletion(s.t.Context(), question("sim"))
	return resp.Header().Get("X-Prefixwise-Endpoint"), err
}

func (s *setup) stream(ctx context.Context) error {
	request := question("sim")
	request.Stream = true
	stream, err := s.client.CreateChatCompletionStream(ctx, request)
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// index finds the instance that has an identity.
func (s *setup) index(id string) int {
	s.t.Helper()
	i := slices.IndexFunc(s.fleet.URLs(), func(url string) bool { return strings.TrimSuffix(url, "/v1") == id })
	require.GreaterOrEqual(s.t, i, 0, id)
	return i
}

// series is what the registry has: values of gauges and counters, and counts of
// histograms under the name with _count, by name and labels.
func (s *setup) series() map[string]float64 {
	s.t.Helper()
	return gather(s.t, s.registry)
}

func gather(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name, value := f.GetName(), m.GetGauge().GetValue()+m.GetCounter().GetValue()
			if f.GetType() == dto.MetricType_HISTOGRAM {
				name, value = name+"_count", float64(m.GetHistogram().GetSampleCount())
			}
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			got[name] = value
		}
	}
	return got
}

// requireSeries waits until the series have the given values: a stream's call
// ends a moment after its reader has seen the end.
func (s *setup) requireSeries(want map[string]float64) {
	s.t.Helper()
	require.EventuallyWithT(s.t, func(t *assert.CollectT) {
		got := s.series()
		for name, value := range want {
			assert.Contains(t, got, name)
			assert.Equal(t, value, got[name], name)
		}
	}, 10*time.Second, time.Millisecond)
}
