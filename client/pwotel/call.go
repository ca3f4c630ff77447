package pwotel

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/middleware"
)

// A call is what is known of one call while it is under way. Its hooks run one
// after another.
type call struct {
	*observer
	ctx     context.Context // the caller's; with the call's span once that has begun
	begun   time.Time
	session string
	span    trace.Span // nil until the first attempt: its name needs the model
	attempt trace.Span // nil between attempts
	pick    middleware.Picked
}

func (c *call) picked(p middleware.Picked) {
	operation := operationOf(p.API)
	if operation == "" {
		return
	}
	c.pick = p
	if c.span == nil {
		c.begin(operation, p.Model, server(p.URL))
	}
	ctx, span := c.tracer.Start(c.ctx, "attempt", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(server(p.URL)...),
		trace.WithAttributes(
			attribute.Int("prefixwise.attempt", p.Attempt),
			attribute.String("prefixwise.endpoint", p.Endpoint),
			attribute.String("prefixwise.strategy", p.Strategy),
			attribute.String("prefixwise.reason", p.Reason),
			attribute.Bool("prefixwise.overflow", p.Overflow),
		))
	if p.Home != "" {
		span.SetAttributes(attribute.String("prefixwise.home", p.Home))
	}
	c.attempt = span
	c.propagator.Inject(ctx, carrier(p.SetHeader))
}

// begin starts the call's span. The attributes that samplers look at are given
// at its start, as the conventions want it.
func (c *call) begin(operation, model string, server []attribute.KeyValue) {
	name, attrs := operation, append([]attribute.KeyValue{operationName(operation), c.providerName()}, server...)
	if model != "" {
		name += " " + model
		attrs = append(attrs, requestModel(model))
	}
	if c.session != "" {
		attrs = append(attrs, attribute.String("gen_ai.conversation.id", c.session))
	}
	c.ctx, c.span = c.tracer.Start(c.ctx, name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(c.begun), trace.WithAttributes(attrs...))
}

func (c *call) retrying(r middleware.Retrying) { c.land(r.Status, r.Cause()) }

// land ends the attempt that is under way, if one is.
func (c *call) land(status int, cause string) {
	if c.attempt == nil {
		return
	}
	if status != 0 {
		c.attempt.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	fail(c.attempt, cause)
	c.attempt.End()
	c.attempt = nil
	c.countAttempt(cause)
}

// fail marks a span as failed, if there is a cause. The text of the error stays
// out, since engines echo prompts in theirs.
func fail(span trace.Span, cause string) {
	if cause != "" {
		span.SetAttributes(errorType(cause))
		span.SetStatus(codes.Error, cause)
	}
}

func (c *call) done(d middleware.Done) {
	operation := operationOf(d.API)
	if operation == "" {
		return
	}
	cause := d.Cause()
	c.land(d.Status, cause)
	if c.span == nil { // no endpoint could be picked
		c.begin(operation, d.Model, nil)
	}
	c.span.SetAttributes(append(server(c.pick.URL),
		attribute.Bool("gen_ai.request.stream", d.Stream),
		attribute.Int("prefixwise.attempts", d.Attempts),
	)...)
	if d.Endpoint != "" {
		c.span.SetAttributes(
			attribute.String("prefixwise.endpoint", d.Endpoint),
			attribute.String("prefixwise.strategy", d.Strategy),
			attribute.String("prefixwise.reason", d.Reason),
			attribute.Bool("prefixwise.overflow", d.Overflow),
		)
	}
	for name, n := range map[string]int{
		"gen_ai.usage.input_tokens":            d.PromptTokens,
		"gen_ai.usage.output_tokens":           d.CompletionTokens,
		"gen_ai.usage.cache_read.input_tokens": d.CachedTokens,
	} {
		if n >= 0 {
			c.span.SetAttributes(attribute.Int(name, n))
		}
	}
	if d.FirstByte > 0 {
		c.span.SetAttributes(attribute.Float64("gen_ai.response.time_to_first_chunk", d.FirstByte.Seconds()))
	}
	fail(c.span, cause)
	c.span.End()
	c.record(operation, cause, d)
}

// operationOf returns the conventions' name of what a request asks for, empty
// for what they have no name for.
func operationOf(api canon.API) string {
	switch api {
	case canon.Chat, canon.Responses, canon.Messages:
		return "chat"
	case canon.Completions:
		return "text_completion"
	case canon.Embeddings:
		return "embeddings"
	}
	return ""
}

// server returns server.address and server.port of an endpoint.
func server(u *url.URL) []attribute.KeyValue {
	if u == nil {
		return nil
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = 80
		if u.Scheme == "https" {
			port = 443
		}
	}
	return []attribute.KeyValue{attribute.String("server.address", u.Hostname()), attribute.Int("server.port", port)}
}

func operationName(name string) attribute.KeyValue {
	return attribute.String("gen_ai.operation.name", name)
}
func requestModel(name string) attribute.KeyValue {
	return attribute.String("gen_ai.request.model", name)
}
func errorType(cause string) attribute.KeyValue { return attribute.String("error.type", cause) }

func (o *observer) providerName() attribute.KeyValue {
	return attribute.String("gen_ai.provider.name", o.provider)
}

// A carrier writes a trace context to an attempt's header.
type carrier func(name, value string)

func (c carrier) Set(name, value string) { c(name, value) }
func (c carrier) Get(string) string      { return "" }
func (c carrier) Keys() []string         { return nil }
