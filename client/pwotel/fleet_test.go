package pwotel_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/client/pwotel"
)

// A setup is a simulated fleet and a client whose spans and metrics are kept.
type setup struct {
	t       *testing.T
	fleet   *fleettest.Fleet
	client  *client.Client
	spans   *tracetest.SpanRecorder
	tracers *sdktrace.TracerProvider
	reader  *sdkmetric.ManualReader
	sent    *sent

	observer *client.Trace
}

func newSetup(t *testing.T, n int, options []pwotel.Option, opts ...client.Option) *setup {
	t.Helper()
	fleet := fleettest.New(n, fleettest.Config{Model: "sim", TimeScale: 1000})
	t.Cleanup(fleet.Close)
	s := &setup{t: t, fleet: fleet, spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader(), sent: &sent{}}
	s.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans))
	options = append([]pwotel.Option{
		pwotel.WithTracerProvider(s.tracers),
		pwotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader))),
		pwotel.WithPropagator(propagation.TraceContext{}),
	}, options...)
	s.observer = pwotel.New(options...)
	var err error
	// The default strategy may leave the home of an idle fleet for reasons of
	// time; this one does not.
	s.client, err = client.New(append(opts, client.WithStrategy(client.BoundedLoad), client.WithEndpoints(fleet.URLs()...),
		client.WithObserver(s.observer), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithTransport(s.sent))...)
	require.NoError(t, err)
	t.Cleanup(func() { s.client.Close() })
	t.Cleanup(s.sent.transport.CloseIdleConnections)
	require.NoError(t, s.client.Ready(t.Context()))
	return s
}

// sent keeps the headers of the calls that are sent to engines, without the
// client's own probes.
type sent struct {
	transport http.Transport
	mu        sync.Mutex
	headers   []http.Header
}

func (s *sent) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasPrefix(req.URL.Path, "/v1/") {
		s.mu.Lock()
		s.headers = append(s.headers, req.Header.Clone())
		s.mu.Unlock()
	}
	return s.transport.RoundTrip(req)
}

// prompt fills some blocks of the engines' caches.
var prompt = strings.Repeat("It is always the same text that is asked about. ", 20)

func question(model string) openai.ChatCompletionRequest {
	return openai.ChatCompletionRequest{Model: model, MaxCompletionTokens: 8,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: prompt}}}
}

// ask makes a plain call and returns the identity of the endpoint that served it.
func (s *setup) ask(ctx context.Context) (string, error) {
	resp, err := s.client.CreateChatCompletion(ctx, question("sim"))
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

// A traced call is its span and those of its attempts, by their begin.
type traced struct {
	sdktrace.ReadOnlySpan
	attempts []sdktrace.ReadOnlySpan
}

// calls waits until n spans have ended and returns the calls that they are of,
// by their begin.
func (s *setup) calls(n int) []traced {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return len(s.spans.Ended()) >= n }, 10*time.Second, time.Millisecond)
	spans := slices.Clone(s.spans.Ended())
	require.Len(s.t, spans, n)
	require.Len(s.t, s.spans.Started(), n, "all that began have ended")
	slices.SortStableFunc(spans, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	var calls []traced
	for _, span := range spans {
		if _, ok := values(span.Attributes())["gen_ai.operation.name"]; !ok {
			continue
		}
		call := traced{ReadOnlySpan: span}
		for _, attempt := range spans {
			if attempt.Parent().SpanID() == span.SpanContext().SpanID() {
				call.attempts = append(call.attempts, attempt)
			}
		}
		calls = append(calls, call)
	}
	return calls
}

func values(attrs []attribute.KeyValue) map[string]any {
	all := map[string]any{}
	for _, a := range attrs {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

// only returns the attributes with the given names.
func only(span sdktrace.ReadOnlySpan, names ...string) map[string]any {
	all := values(span.Attributes())
	maps.DeleteFunc(all, func(name string, _ any) bool { return !slices.Contains(names, name) })
	return all
}

// collect returns the metrics by name.
func (s *setup) collect() map[string]metricdata.Metrics {
	s.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(s.t, s.reader.Collect(context.Background(), &all))
	byName := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		require.Equal(s.t, "github.com/prefixwise/prefixwise/client/pwotel", scope.Scope.Name)
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// points returns the points of a metric: the value of a counter or the count of
// a histogram, by attributes in the form "a=b,c=d".
func points(m metricdata.Metrics) map[string]int64 {
	all := map[string]int64{}
	put := func(set attribute.Set, n int64) { all[set.Encoded(attribute.DefaultEncoder())] = n }
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			put(p.Attributes, p.Value)
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			put(p.Attributes, int64(p.Count))
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			put(p.Attributes, int64(p.Count))
		}
	}
	return all
}
