package client

import (
	"context"

	"github.com/prefixwise/prefixwise/middleware"
)

// WithSession returns a context whose calls belong to the conversation id.
// They prefer one endpoint, whatever becomes of the messages' text.
func WithSession(ctx context.Context, id string) context.Context {
	return middleware.WithHints(ctx, middleware.Hints{Session: id})
}

// WithTenant returns a context whose calls are made for a tenant. Equal
// prompts of different tenants have different keys, so their preferred
// endpoints are independent; a tenant is not pinned to one endpoint.
func WithTenant(ctx context.Context, name string) context.Context {
	return middleware.WithHints(ctx, middleware.Hints{Tenant: name})
}

// WithCacheKey returns a context whose calls have key mixed into their prefix
// key, as OpenAI's prompt_cache_key does; it takes precedence over one in the
// request.
func WithCacheKey(ctx context.Context, key string) context.Context {
	return middleware.WithHints(ctx, middleware.Hints{CacheKey: key})
}

// WithPlacement returns a context whose calls continue a conversation whose
// last response had this X-Prefixwise-Placement header. Its instance holds the
// conversation's beginning and is preferred, whichever process got that
// response. The token is advice: one of an instance that is gone or full, or
// that is not a token at all, is ignored. A [Session] does this by itself.
func WithPlacement(ctx context.Context, token string) context.Context {
	return middleware.WithHints(ctx, middleware.Hints{Placement: token})
}

// WithExtraBody returns a context whose calls have the given members set at
// the root of their JSON body, for fields that go-openai has no name for, such
// as vLLM's cache_salt, priority or documents. Values are written as
// encoding/json does; one that cannot be fails the call.
func WithExtraBody(ctx context.Context, members map[string]any) context.Context {
	return middleware.WithHints(ctx, middleware.Hints{ExtraBody: members})
}

// Trace is a set of hooks on the way of a call; see middleware.Trace.
type Trace = middleware.Trace

// WithTrace returns a context whose calls are reported to t, after the traces
// that ctx has already. It is safe to use one Trace for many calls at once
// when its hooks are.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	return middleware.WithTrace(ctx, t)
}

// Error is a failure that Prefixwise found; see middleware.Error. An error
// response of an engine is an *openai.APIError, as with the bare client.
type Error = middleware.Error
