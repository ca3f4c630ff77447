package middleware

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/prefixwise/prefixwise/canon"
)

// Trace is a set of hooks on the way of a call, in the manner of
// net/http/httptrace. Any hook may be nil. Hooks of one call run one after
// another, but calls that share a Trace run at the same time, so a hook that
// keeps state must guard it. A hook must not block: it runs on the call's way.
type Trace struct {
	// Begin runs when a call begins, with its context. The Trace that it
	// returns is told of this call alone, so its hooks can share what they
	// know of the call without guarding it; nil adds nothing. The Begin of
	// what it returns does not run.
	Begin func(ctx context.Context) *Trace
	// Picked runs when an attempt has its endpoint, before it is sent.
	Picked func(Picked)
	// Retrying runs when an attempt has failed and another will follow.
	Retrying func(Retrying)
	// FirstByte runs when the first content of a stream has arrived.
	FirstByte func(FirstByte)
	// Done runs once for each call: when its body has been read to the end
	// or closed, or when it failed.
	Done func(Done)
}

// Picked describes the choice of an endpoint for one attempt.
type Picked struct {
	// Attempt counts from 1.
	Attempt int
	// Endpoint is the identity of the endpoint that was picked, and Home of
	// the one that hashing prefers (empty where the strategy has none).
	Endpoint, Home string
	// Strategy and Reason say how it was picked.
	Strategy, Reason string
	// Overflow is whether load, a limit, health or an earlier try decided; see
	// affinity.Reason.Overflow.
	Overflow bool
	// API and Model are what the request asks for.
	API   canon.API
	Model string
	// URL is the endpoint's. It is shared and must not be modified.
	URL *url.URL
	// SetHeader sets a field of the header that this attempt sends, over the
	// caller's: a trace context. It works until the hook returns.
	SetHeader func(name, value string)
}

// Retrying describes an attempt that failed and is followed by another.
type Retrying struct {
	// Attempt is the number of the attempt that failed, from 1.
	Attempt int
	// Endpoint is where it failed.
	Endpoint string
	// Status is the HTTP status it got, 0 if Err says why there is none.
	Status int
	Err    error
	// Wait is the time until the next attempt.
	Wait time.Duration
}

// FirstByte describes the arrival of a stream's first content.
type FirstByte struct {
	Endpoint string
	// Elapsed is the time since the call began; SinceAttempt since the
	// attempt that succeeded was sent.
	Elapsed, SinceAttempt time.Duration
}

// Done describes a call that has ended.
type Done struct {
	// Start is when the call began.
	Start time.Time
	// Endpoint served the last attempt, empty if none was picked.
	Endpoint string
	// Strategy, Reason and Overflow are those of the last attempt. Where none
	// could be made, Strategy is the one that found no endpoint.
	Strategy, Reason string
	Overflow         bool
	// Attempts is how many attempts were made, 0 if none could be.
	Attempts int
	API      canon.API
	// Model is the model that the request names.
	Model  string
	Stream bool
	// Head, Root and Boundaries are the hashes of the prompt's prefixes; see
	// canon.Result. They are zero for requests that [Canonicalize] has not
	// read. Boundaries must not be changed.
	Head, Root uint64
	Boundaries []canon.Boundary
	// Session, Tenant and CacheKey are what the request was placed by, beside
	// its prompt; see [Hints].
	Session, Tenant, CacheKey string
	// Status is the HTTP status of the response, 0 if there is none.
	Status int
	// Err is why the call failed: nil for a complete answer, and for an
	// error response of an engine, which Status shows.
	Err error
	// PromptTokens, CachedTokens and CompletionTokens are as the engine
	// reported them, -1 where it did not. Absent is not zero, except that an
	// endpoint that has told CachedTokens before, in the same API, and leaves
	// it out means 0: so do versions of vLLM.
	PromptTokens, CachedTokens, CompletionTokens int
	// FirstByte is the time from the call's begin to the first content of a
	// stream; 0 for other responses.
	FirstByte time.Duration
	// Total is the time from the call's begin to its end.
	Total time.Duration
}

type traceKey struct{}

// WithTrace returns a context whose calls are reported to t, after the traces
// that ctx has already.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	if t == nil {
		return ctx
	}
	old := tracesFrom(ctx)
	return context.WithValue(ctx, traceKey{}, append(old[:len(old):len(old)], t))
}

func tracesFrom(ctx context.Context) []*Trace {
	traces, _ := ctx.Value(traceKey{}).([]*Trace)
	return traces
}

// Observe reports every call that passes through it to t.
func Observe(t *Trace) Middleware {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			req, c, owner := callOf(req)
			if !slices.Contains(c.traces, t) { // below Retry, each attempt comes here
				c.trace(req.Context(), t)
			}
			resp, err := next.RoundTrip(req)
			if owner {
				c.finish(resp, err)
			}
			return resp, err
		})
	}
}
