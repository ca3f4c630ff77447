package middleware

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/prefixwise/prefixwise/canon"
)

// Hints say what the caller knows about a call. They ride in the context,
// since every SDK passes that on.
type Hints struct {
	// Session identifies a conversation. It replaces the content of the
	// conversation as the key, so all its requests prefer one endpoint.
	Session string
	// Tenant and CacheKey are mixed into the key: they separate the requests
	// of different tenants, they do not pin them.
	Tenant   string
	CacheKey string
	// ExtraBody has members to set at the root of a JSON request body, for
	// fields that an SDK has no name for (cache_salt, priority, documents).
	ExtraBody map[string]any
}

type hintsKey struct{}

// WithHints returns a context that carries h. Fields that are empty in h keep
// the value that ctx has already; ExtraBody is merged by name.
func WithHints(ctx context.Context, h Hints) context.Context {
	old := HintsFrom(ctx)
	if h.Session == "" {
		h.Session = old.Session
	}
	if h.Tenant == "" {
		h.Tenant = old.Tenant
	}
	if h.CacheKey == "" {
		h.CacheKey = old.CacheKey
	}
	extra := maps.Clone(old.ExtraBody)
	if extra == nil {
		extra = make(map[string]any, len(h.ExtraBody))
	}
	maps.Copy(extra, h.ExtraBody)
	h.ExtraBody = extra
	return context.WithValue(ctx, hintsKey{}, h)
}

// HintsFrom returns the hints that ctx carries, or the zero value.
func HintsFrom(ctx context.Context) Hints {
	h, _ := ctx.Value(hintsKey{}).(Hints)
	return h
}

// call is what the pieces of the chain tell one another about one request of
// the caller. The first piece that sees a request makes it and finishes it.
// Its attempts follow one another, so it needs no lock.
type call struct {
	hints    Hints
	api      canon.API
	prompt   canon.Result
	body     []byte // what every attempt sends; nil when it was not buffered
	start    time.Time
	deadline time.Time // zero: none
	attempts int
	tried    []string
	last     *Error // why the latest attempt failed, if it failed without a response
	traces   []*Trace
	done     Done
}

type callKey struct{}

// callOf returns the call that req belongs to. For the first piece of the
// chain it makes one, and owner is true: that piece must call finish.
func callOf(req *http.Request) (r *http.Request, c *call, owner bool) {
	ctx := req.Context()
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return req, c, false
	}
	c = &call{
		hints:  HintsFrom(ctx),
		api:    apiOf(req.URL.Path),
		start:  time.Now(),
		traces: tracesFrom(ctx),
		done:   Done{PromptTokens: -1, CachedTokens: -1, CompletionTokens: -1},
	}
	return req.WithContext(context.WithValue(ctx, callKey{}, c)), c, true
}

// finish reports a call that ended without a body for the caller to read. A
// call that has one is reported when that body ends.
func (c *call) finish(resp *http.Response, err error) {
	switch {
	case err != nil:
		c.report(0, err)
	case resp.StatusCode >= 400:
		c.report(resp.StatusCode, nil)
	}
}

// report tells the traces that the call has ended.
func (c *call) report(status int, err error) {
	d := &c.done
	d.Status, d.Err = status, err
	d.Attempts = c.attempts
	d.API, d.Model, d.Stream = c.api, c.prompt.Model, c.prompt.Stream
	d.Total = time.Since(c.start)
	for _, t := range c.traces {
		if t.Done != nil {
			t.Done(*d)
		}
	}
}

// apiOf tells the kind of request by its path. The Assistants API of OpenAI
// has paths that end in /messages too, hence the stricter test.
func apiOf(path string) canon.API {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return canon.Chat
	case strings.HasSuffix(path, "/completions"):
		return canon.Completions
	case strings.HasSuffix(path, "/embeddings"):
		return canon.Embeddings
	case strings.HasSuffix(path, "/responses"):
		return canon.Responses
	case path == "/messages", strings.HasSuffix(path, "/v1/messages"):
		return canon.Messages
	}
	return canon.Unknown
}
