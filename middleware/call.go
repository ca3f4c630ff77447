package middleware

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
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
	// Placement is where the conversation's last response came from, as its
	// [HeaderPlacement] said. It is advice: an endpoint that is gone or full is
	// not waited for.
	Placement string
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
	if h.Placement == "" {
		h.Placement = old.Placement
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
	last     *Error           // why the latest attempt is to be followed by another
	lost     int              // attempts whose connection broke while the engine worked
	wait     time.Duration    // before the attempt to come
	router   *affinity.Router // nil without Route
	want     affinity.Request // what Route asks of it
	flight   *flight          // the latest attempt, nil without Route
	traces   []*Trace
	done     Done
	room     struct { // for what most calls have of tried and traces, in one piece
		tried  [1]string
		traces [4]*Trace
	}
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
		hints: HintsFrom(ctx),
		api:   apiOf(req),
		start: time.Now(),
		done:  Done{PromptTokens: -1, CachedTokens: -1, CompletionTokens: -1},
	}
	c.tried, c.traces = c.room.tried[:0], c.room.traces[:0]
	for _, t := range tracesFrom(ctx) {
		c.trace(ctx, t)
	}
	return req.WithContext(context.WithValue(ctx, callKey{}, c)), c, true
}

// trace reports the call to t from now on.
func (c *call) trace(ctx context.Context, t *Trace) {
	c.traces = append(c.traces, t)
	if t.Begin == nil {
		return
	}
	if own := t.Begin(ctx); own != nil {
		c.traces = append(c.traces, own)
	}
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
	d.Head, d.Root, d.Boundaries = c.prompt.Head, c.prompt.Root, c.prompt.Boundaries
	d.Session, d.Tenant, d.CacheKey = c.hints.Session, c.hints.Tenant, c.cacheKey()
	d.Start, d.Total = c.start, time.Since(c.start)
	for _, t := range c.traces {
		if t.Done != nil {
			t.Done(*d)
		}
	}
}

// cacheKey returns the cache key of the hints, or else that of the request.
func (c *call) cacheKey() string { return cmp.Or(c.hints.CacheKey, c.prompt.CacheKey) }

// overdue tells whether the call's own time limit is over at t.
func (c *call) overdue(t time.Time) bool { return !c.deadline.IsZero() && !t.Before(c.deadline) }

// bounded returns ctx with the call's own time limit, for waits before an
// attempt; the attempt itself has it in its flight.
func (c *call) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, c.deadline, ErrTotalTimeout)
}

// elsewhere tells whether an endpoint is left that this call has not tried.
func (c *call) elsewhere() bool {
	if c.router == nil {
		return false
	}
	want := c.want
	want.Tried = c.tried
	return c.router.Untried(&want)
}

// after says what the latest attempt came to, in an error that came up before
// the next one could be made.
func (c *call) after(err error) error {
	if c.last == nil {
		return err
	}
	return fmt.Errorf("%w (after %s: %w)", err, c.last.Endpoint, c.last.Err)
}

// apiOf tells the kind of request by its path. The Assistants API of OpenAI
// has paths that end in /messages too, hence the stricter test. Other methods ask
// for no answer of these kinds: a HEAD or an OPTIONS has none at all.
func apiOf(req *http.Request) canon.API {
	path := req.URL.Path
	switch {
	case req.Method != http.MethodPost:
		return canon.Unknown
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
