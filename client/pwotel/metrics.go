package pwotel

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/prefixwise/prefixwise/middleware"
)

// The bounds that the conventions give for the histograms.
var (
	seconds = metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
	tokens  = metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
)

type instruments struct {
	duration, firstChunk     metric.Float64Histogram
	usage                    metric.Int64Histogram
	prompt, cached, attempts metric.Int64Counter
}

func newInstruments(m metric.Meter) instruments {
	return instruments{
		duration: made(m.Float64Histogram("gen_ai.client.operation.duration", seconds,
			metric.WithUnit("s"), metric.WithDescription("Time from a call's begin to the end of its answer."))),
		firstChunk: made(m.Float64Histogram("gen_ai.client.operation.time_to_first_chunk", seconds,
			metric.WithUnit("s"), metric.WithDescription("Time from a call's begin to the first content of a stream."))),
		usage: made(m.Int64Histogram("gen_ai.client.token.usage", tokens,
			metric.WithUnit("{token}"), metric.WithDescription("Tokens of a call's prompt and of its answer."))),
		prompt: made(m.Int64Counter("prefixwise.client.prompt_tokens",
			metric.WithUnit("{token}"), metric.WithDescription("Prompt tokens of the calls for which engines reported cached tokens too."))),
		cached: made(m.Int64Counter("prefixwise.client.cached_tokens",
			metric.WithUnit("{token}"), metric.WithDescription("Prompt tokens that came from the engines' caches."))),
		attempts: made(m.Int64Counter("prefixwise.client.attempts",
			metric.WithUnit("{attempt}"), metric.WithDescription("Attempts of calls that ended."))),
	}
}

// made reports the error of an instrument, which works nevertheless, as the API
// requires.
func made[I any](instrument I, err error) I {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

func (c *call) countAttempt(cause string) {
	attrs := append(c.where(), attribute.String("prefixwise.reason", c.pick.Reason), attribute.Bool("prefixwise.overflow", c.pick.Overflow))
	if cause != "" {
		attrs = append(attrs, errorType(cause))
	}
	c.instruments.attempts.Add(c.recording(), 1, metric.WithAttributes(attrs...))
}

// record records the metrics of a call that has ended.
func (c *call) record(operation, cause string, d middleware.Done) {
	ctx := c.recording()
	attrs := append(c.where(), operationName(operation), c.providerName())
	if d.Model != "" {
		attrs = append(attrs, requestModel(c.models.name(d.Model, cause)))
	}
	attrs = attrs[:len(attrs):len(attrs)]
	common := metric.WithAttributeSet(attribute.NewSet(attrs...))
	if cause == "" {
		c.instruments.duration.Record(ctx, d.Total.Seconds(), common)
	} else {
		c.instruments.duration.Record(ctx, d.Total.Seconds(), metric.WithAttributes(append(attrs, errorType(cause))...))
	}
	if d.FirstByte > 0 {
		c.instruments.firstChunk.Record(ctx, d.FirstByte.Seconds(), common)
	}
	if d.PromptTokens >= 0 {
		c.instruments.usage.Record(ctx, int64(d.PromptTokens), metric.WithAttributes(append(attrs, attribute.String("gen_ai.token.type", "input"))...))
	}
	if d.CompletionTokens >= 0 {
		c.instruments.usage.Record(ctx, int64(d.CompletionTokens), metric.WithAttributes(append(attrs, attribute.String("gen_ai.token.type", "output"))...))
	}
	if d.PromptTokens >= 0 && d.CachedTokens >= 0 {
		c.instruments.prompt.Add(ctx, int64(d.PromptTokens), common)
		c.instruments.cached.Add(ctx, int64(d.CachedTokens), common)
	}
}

// recording is the context to record in: the call's, for the exemplars, though
// it may have ended.
func (c *call) recording() context.Context { return context.WithoutCancel(c.ctx) }

func (c *call) where() []attribute.KeyValue {
	if !c.byEndpoint {
		return nil
	}
	return server(c.pick.URL)
}

const (
	// maxModels bounds the models that metrics tell apart: a base model and
	// its adapters in all but odd fleets.
	maxModels = 32
	// other is the conventions' word for what is left out.
	other = "_OTHER"
)

// models are the names that metrics tell apart: the first ones.
type models struct {
	mu    sync.RWMutex
	known map[string]bool
}

func (m *models) name(model, cause string) string {
	m.mu.RLock()
	known, n := m.known[model], len(m.known)
	m.mu.RUnlock()
	switch {
	case known:
		return model
	case n >= maxModels || cause == "404" || cause == "model_not_served":
		return other
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxModels && !m.known[model] {
		return other
	}
	if m.known == nil {
		m.known = map[string]bool{}
	}
	m.known[model] = true
	return model
}
