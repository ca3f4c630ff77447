package pwotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/middleware"
)

const scope = "github.com/prefixwise/prefixwise/client/pwotel"

// New returns the hooks to give to a client, by client.WithObserver. They can
// be given to several.
func New(opts ...Option) *client.Trace {
	c := config{provider: "vllm"}
	for _, o := range opts {
		if o != nil {
			o.apply(&c)
		}
	}
	if c.tracers == nil {
		c.tracers = otel.GetTracerProvider()
	}
	if c.meters == nil {
		c.meters = otel.GetMeterProvider()
	}
	if c.propagator == nil {
		c.propagator = otel.GetTextMapPropagator()
	}
	o := &observer{config: c, tracer: c.tracers.Tracer(scope), instruments: newInstruments(c.meters.Meter(scope))}
	return &client.Trace{Begin: o.begin}
}

type observer struct {
	config
	tracer      trace.Tracer
	instruments instruments
	models      models
}

func (o *observer) begin(ctx context.Context) *client.Trace {
	c := &call{observer: o, ctx: ctx, begun: time.Now(), session: middleware.HintsFrom(ctx).Session}
	return &client.Trace{Picked: c.picked, Retrying: c.retrying, Done: c.done}
}
