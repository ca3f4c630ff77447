package pwotel_test

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/client/pwotel"
	"github.com/prefixwise/prefixwise/middleware"
)

func addressOf(t *testing.T, endpoint string) (string, int64) {
	u, err := url.Parse(endpoint)
	require.NoError(t, err)
	port, err := strconv.ParseInt(u.Port(), 10, 64)
	require.NoError(t, err)
	return u.Hostname(), port
}

func TestSuccess(t *testing.T) {
	s := newSetup(t, 2, nil)
	ctx, parent := s.tracers.Tracer("app").Start(t.Context(), "the caller's")
	var picked time.Time
	ctx = client.WithTrace(ctx, &client.Trace{Picked: func(middleware.Picked) { picked = time.Now() }})
	home, err := s.ask(client.WithSession(ctx, "conversation 1"))
	require.NoError(t, err)
	parent.End()
	call := s.calls(3)[0]
	require.Len(t, call.attempts, 1)
	attempt := call.attempts[0]
	host, port := addressOf(t, home)

	require.Equal(t, "chat sim", call.Name())
	require.Equal(t, trace.SpanKindClient, call.SpanKind())
	require.Equal(t, parent.SpanContext().SpanID(), call.Parent().SpanID())
	require.Equal(t, codes.Unset, call.Status().Code)
	got := values(call.Attributes())
	require.Positive(t, got["gen_ai.usage.input_tokens"])
	delete(got, "gen_ai.usage.input_tokens")
	require.Equal(t, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "vllm", "gen_ai.request.model": "sim",
		"gen_ai.request.stream": false, "gen_ai.conversation.id": "conversation 1",
		"gen_ai.usage.output_tokens": int64(8), "gen_ai.usage.cache_read.input_tokens": int64(0),
		"server.address": host, "server.port": port,
		"prefixwise.endpoint": home, "prefixwise.strategy": "bounded-load", "prefixwise.reason": "home",
		"prefixwise.overflow": false, "prefixwise.attempts": int64(1),
	}, got)

	require.Equal(t, "attempt", attempt.Name())
	require.Equal(t, trace.SpanKindClient, attempt.SpanKind())
	require.Equal(t, map[string]any{
		"server.address": host, "server.port": port, "http.response.status_code": int64(200),
		"prefixwise.attempt": int64(1), "prefixwise.endpoint": home, "prefixwise.home": home,
		"prefixwise.strategy": "bounded-load", "prefixwise.reason": "home", "prefixwise.overflow": false,
	}, values(attempt.Attributes()))
	require.True(t, call.StartTime().Before(picked), "the call begins before its first attempt")
	require.False(t, attempt.StartTime().Before(picked))
	require.False(t, call.EndTime().Before(attempt.EndTime()))
}

func TestStream(t *testing.T) {
	s := newSetup(t, 1, []pwotel.Option{pwotel.WithProviderName("sglang")})
	require.NoError(t, s.stream(t.Context()))
	require.NoError(t, s.stream(t.Context()))
	call := s.calls(4)[1]
	got := values(call.Attributes())
	require.Equal(t, true, got["gen_ai.request.stream"])
	require.Equal(t, "sglang", got["gen_ai.provider.name"])
	require.Positive(t, got["gen_ai.usage.cache_read.input_tokens"], "the second question is the first")
	require.Positive(t, got["gen_ai.response.time_to_first_chunk"])
	require.Less(t, got["gen_ai.response.time_to_first_chunk"], call.EndTime().Sub(call.StartTime()).Seconds())
	require.NotContains(t, got, "gen_ai.conversation.id")
}

func TestOverflow(t *testing.T) {
	s := newSetup(t, 2, nil, client.WithLimit(1))
	home, err := s.ask(t.Context())
	require.NoError(t, err)
	s.fleet.SetFault(s.index(home), fleettest.Fault{Hang: true})
	picked := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(client.WithTrace(t.Context(), &client.Trace{Picked: func(middleware.Picked) { picked <- struct{}{} }}))
	ended := make(chan error)
	go func() { ended <- s.stream(ctx) }()
	<-picked
	other, err := s.ask(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, home, other)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)

	calls := s.calls(6)
	require.Equal(t, map[string]any{"error.type": "canceled", "prefixwise.overflow": false, "prefixwise.endpoint": home},
		only(calls[1], "error.type", "prefixwise.overflow", "prefixwise.endpoint"))
	require.Equal(t, map[string]any{"prefixwise.reason": "overflow-full", "prefixwise.overflow": true, "prefixwise.endpoint": other},
		only(calls[2], "error.type", "prefixwise.reason", "prefixwise.overflow", "prefixwise.endpoint"))
	require.Equal(t, map[string]any{"prefixwise.reason": "overflow-full", "prefixwise.endpoint": other, "prefixwise.home": home},
		only(calls[2].attempts[0], "error.type", "prefixwise.reason", "prefixwise.home", "prefixwise.endpoint"))
}

func TestFailover(t *testing.T) {
	s := newSetup(t, 2, nil)
	home, err := s.ask(t.Context())
	require.NoError(t, err)
	s.fleet.SetFault(s.index(home), fleettest.Fault{Status: 503})
	other, err := s.ask(t.Context())
	require.NoError(t, err)
	call := s.calls(5)[1]
	require.Len(t, call.attempts, 2)
	first, second := call.attempts[0], call.attempts[1]
	host, port := addressOf(t, other)
	require.Equal(t, codes.Unset, call.Status().Code)
	require.Equal(t, map[string]any{"prefixwise.attempts": int64(2), "prefixwise.endpoint": other, "prefixwise.reason": "failover",
		"server.address": host, "server.port": port},
		only(call, "prefixwise.attempts", "prefixwise.endpoint", "prefixwise.reason", "server.address", "server.port", "error.type"))
	require.Equal(t, codes.Error, first.Status().Code)
	require.Equal(t, map[string]any{"prefixwise.attempt": int64(1), "prefixwise.endpoint": home,
		"http.response.status_code": int64(503), "error.type": "503"},
		only(first, "prefixwise.attempt", "prefixwise.endpoint", "http.response.status_code", "error.type"))
	require.Equal(t, codes.Unset, second.Status().Code)
	require.Equal(t, map[string]any{"prefixwise.attempt": int64(2), "prefixwise.endpoint": other,
		"http.response.status_code": int64(200)},
		only(second, "prefixwise.attempt", "prefixwise.endpoint", "http.response.status_code", "error.type"))
	require.False(t, second.StartTime().Before(first.EndTime()), "one after the other")
}

func TestFailure(t *testing.T) {
	s := newSetup(t, 1, nil, client.WithRetries(0), client.WithEjection(nil))
	s.fleet.SetFault(0, fleettest.Fault{Status: 500})
	_, err := s.ask(t.Context())
	require.Error(t, err)
	s.fleet.SetFault(0, fleettest.Fault{Stream: fleettest.StreamError, AfterTokens: 2})
	require.Error(t, s.stream(t.Context()))
	s.fleet.Kill(0)
	_, err = s.ask(t.Context())
	require.Error(t, err)
	calls := s.calls(6)
	for i, want := range []struct {
		cause  string
		status any
	}{{"500", int64(500)}, {"engine_error", int64(200)}, {"connect", nil}} {
		attempt := calls[i].attempts[0]
		for _, span := range []sdktrace.ReadOnlySpan{calls[i], attempt} {
			require.Equal(t, codes.Error, span.Status().Code, want.cause)
			require.Equal(t, want.cause, span.Status().Description)
			require.Equal(t, want.cause, values(span.Attributes())["error.type"])
		}
		require.Equal(t, want.status, values(attempt.Attributes())["http.response.status_code"])
	}
}

// A call that never gets an endpoint is a span without attempts.
func TestNothingPicked(t *testing.T) {
	s := newSetup(t, 1, nil, client.WithMaxRequestBytes(100))
	_, err := s.ask(t.Context())
	require.Error(t, err)
	call := s.calls(1)[0]
	require.Empty(t, call.attempts)
	require.Equal(t, "chat", call.Name(), "the model was not read")
	require.Equal(t, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "vllm", "gen_ai.request.stream": false,
		"prefixwise.attempts": int64(0), "error.type": "request_too_large",
	}, values(call.Attributes()))
}

// Each engine gets the context of its own attempt.
func TestEnginesGetTheAttemptsContext(t *testing.T) {
	s := newSetup(t, 2, nil)
	home, err := s.ask(t.Context())
	require.NoError(t, err)
	s.fleet.SetFault(s.index(home), fleettest.Fault{Status: 503})
	_, err = s.ask(t.Context())
	require.NoError(t, err)
	_, err = s.client.ListModels(t.Context())
	require.NoError(t, err)
	calls := s.calls(5)
	require.Len(t, s.sent.headers, 4)
	for i, attempt := range append(calls[0].attempts, calls[1].attempts...) {
		ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.HeaderCarrier(s.sent.headers[i]))
		require.Equal(t, attempt.SpanContext().SpanID(), trace.SpanContextFromContext(ctx).SpanID())
		require.Equal(t, attempt.SpanContext().TraceID(), trace.SpanContextFromContext(ctx).TraceID())
	}
	require.Empty(t, s.sent.headers[3].Get("Traceparent"), "a list of models is not reported")
}

// What callers and engines say stays out of spans.
func TestNoTexts(t *testing.T) {
	s := newSetup(t, 1, nil)
	require.NoError(t, s.stream(client.WithTenant(client.WithCacheKey(t.Context(), "cache-key"), "tenant-name")))
	s.fleet.SetFault(0, fleettest.Fault{Stream: fleettest.StreamError, AfterTokens: 2})
	require.Error(t, s.stream(t.Context()))
	s.calls(4)
	for _, span := range s.spans.Ended() {
		require.Empty(t, span.Events(), "errors are not recorded by their text")
		text := fmt.Sprint(span.Name(), span.Status(), values(span.Attributes()))
		for _, secret := range []string{"same text", "cache-key", "tenant-name", "simulated"} {
			require.False(t, strings.Contains(text, secret), text)
		}
	}
}
