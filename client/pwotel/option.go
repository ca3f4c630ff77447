package pwotel

import (
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Option is a setting of [New].
type Option interface{ apply(*config) }

type config struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	propagator propagation.TextMapPropagator
	provider   string
	byEndpoint bool
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// WithTracerProvider sets where spans go. The default is the global provider.
func WithTracerProvider(p trace.TracerProvider) Option {
	return optionFunc(func(c *config) { c.tracers = p })
}

// WithMeterProvider sets where metrics go. The default is the global provider.
func WithMeterProvider(p metric.MeterProvider) Option {
	return optionFunc(func(c *config) { c.meters = p })
}

// WithPropagator sets how the trace context is written to the requests for
// engines. The default is the global propagator, which writes nothing until the
// program sets one; propagation.TraceContext{} is what vLLM reads.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return optionFunc(func(c *config) { c.propagator = p })
}

// WithProviderName sets gen_ai.provider.name. The default is "vllm".
func WithProviderName(name string) Option {
	return optionFunc(func(c *config) { c.provider = name })
}

// WithEndpointMetrics adds server.address and server.port to all metrics. It is
// for fleets of few endpoints whose addresses stay; under Kubernetes each new
// pod would be another series. Spans have them always.
func WithEndpointMetrics() Option {
	return optionFunc(func(c *config) { c.byEndpoint = true })
}
