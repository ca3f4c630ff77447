package middleware

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/discovery"
)

// Response headers that [Route] sets, so that a caller can see what happened
// (go-openai shows them as resp.Header()).
const (
	HeaderEndpoint = "X-Prefixwise-Endpoint"
	HeaderStrategy = "X-Prefixwise-Strategy"
	HeaderOverflow = "X-Prefixwise-Overflow" // the reason, of an overflow only; see affinity.Reason.Overflow
	HeaderAttempts = "X-Prefixwise-Attempts"
)

// Routing is what [Route] needs.
type Routing struct {
	// Router picks the endpoints. Required.
	Router *affinity.Router
	// Lookup finds an endpoint by its identity. Required.
	Lookup func(id string) (discovery.Endpoint, bool)
	// Placed finds the endpoint that a placement token stands for. Nil ignores
	// the tokens.
	Placed func(token string) (id string, ok bool)
	// Strategy chooses the strategy of a call by what is known of it, for
	// experiments; "" and nil mean the router's. It is called once for each
	// call.
	Strategy func(*affinity.Request) affinity.Strategy
	// Wait is called when no endpoint is known yet; it returns when one may
	// be, or with an error. Nil fails at once.
	Wait func(context.Context) error
	// ConnectFailed is told of an endpoint that could not be connected to, so
	// that discovery can look again. It must not block.
	ConnectFailed func(id string)
	// ModelMissing is called when no endpoint lists the model of a request. It
	// returns true when the lists have been read anew, so that the pick is
	// worth repeating. Nil fails at once.
	ModelMissing func(ctx context.Context, model string) bool
	// LimitWait is for how long a call waits when every endpoint is at its
	// limit and the router refuses to go over it. Zero fails at once.
	LimitWait time.Duration
	// Flights, when not nil, is told of every attempt, so that those at an
	// endpoint that is gone can be ended.
	Flights *Flights
	// Header is set on every request to an endpoint, over the caller's: the
	// fleet's Authorization.
	Header http.Header
	// FirstByte bounds the time from sending a stream's request to its first
	// content. A plain response sends its headers after generating, so it is
	// not bounded by it. Zero means no bound.
	FirstByte time.Duration
	// Stall is how long a stream may wait for its first content before its
	// endpoint is suspected to hang; see affinity.Lease.Stalled. The stream
	// itself goes on waiting. Zero means never.
	Stall time.Duration
	// MaxResponse bounds a plain response, in bytes. Zero means 256 MiB: the
	// answer to 2,048 embeddings of 4,096 numbers has about 90.
	MaxResponse int64
	// Idle bounds the time between two reads of a body. Zero means no bound.
	Idle time.Duration
	// StreamError makes the error for an error that an engine reports inside
	// a stream, from the JSON of its event. Nil means an *EngineError.
	StreamError func(event []byte) error
}

// Route sends each attempt to the endpoint that the router picks for its
// prompt, counts it as in flight until its body ends, and judges what comes
// back: a redirect is an error, an error response is read whole (1 MiB of it
// at most), a plain response is read whole so that one that breaks off can be
// sent elsewhere, and a stream is returned when its first content is there.
func Route(r Routing) Middleware {
	if r.MaxResponse <= 0 {
		r.MaxResponse = 256 << 20
	}
	return func(next http.RoundTripper) http.RoundTripper {
		return &route{Routing: r, next: next}
	}
}

type route struct {
	Routing
	next      http.RoundTripper
	responses responses
	tellers   tellers
	queue     queue
}

func (r *route) RoundTrip(req *http.Request) (*http.Response, error) {
	req, c, owner := callOf(req)
	resp, err := r.attempt(req, c)
	if owner {
		c.finish(resp, err)
	}
	return resp, err
}

func (r *route) attempt(req *http.Request, c *call) (*http.Response, error) {
	f, err := r.takeOff(req, c)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	returned := false
	defer func() {
		if !returned { // a hook or a transport of the caller's panics
			f.land(nil)
			f.close()
		}
	}()
	out := r.address(req, f)
	f.announce(out.Header)
	if c.prompt.Stream {
		f.expectStream()
	}
	f.replayable = c.api != canon.Unknown || req.Method == http.MethodGet || req.Method == http.MethodHead
	f.plain = c.prompt.Body != nil && c.prompt.Diagnosis.Code == canon.OK && !c.prompt.Stream &&
		!strings.Contains(req.Header.Get("Accept"), "text/event-stream")
	if c.prompt.Body == nil {
		watchUpload(out)
	}
	trailer := faultOf(out.Trailer)
	resp, err := r.next.RoundTrip(out)
	if err != nil {
		err = f.fail(PhaseFirstByte, blame(out, trailer, err))
	} else {
		f.status = resp.StatusCode
		resp, err = r.receive(resp, f)
	}
	returned = true
	return resp, err
}

// takeOff picks an endpoint and takes a lease on it. When it returns no error,
// the flight must be landed.
func (r *route) takeOff(req *http.Request, c *call) (*flight, error) {
	if c.attempts == 0 {
		c.want = r.request(c)
	}
	c.want.Tried = c.tried
	c.router = r.Router
	var err error
	if id := responseNamed(c, req.URL.Path); id != "" {
		place, known := r.responses.place(id)
		if !known && len(r.Router.Stats()) > 1 {
			err = &UnknownResponseError{ID: id}
		}
		c.want.Sticky = place
	}
	var lease affinity.Lease
	var ep discovery.Endpoint
	if err == nil {
		if c.want.Sticky == "" { // a pick that fails is the strategy's too
			c.done.Strategy = string(c.want.Strategy)
		}
		lease, ep, err = r.pick(req.Context(), c)
	}
	if err != nil {
		return nil, &Error{Phase: PhasePick, Attempts: c.attempts, Err: c.after(err)}
	}
	return newFlight(req.Context(), r, c, lease, ep), nil
}

// request returns what the router must know of a call.
func (r *route) request(c *call) affinity.Request {
	want := affinity.Request{
		Model: c.prompt.Model, Head: c.prompt.Head, Root: c.prompt.Root,
		Session: c.hints.Session, Tenant: c.hints.Tenant, CacheKey: c.cacheKey(),
	}
	want.Boundaries, want.Previous = boundariesOf(&c.prompt)
	if r.Placed != nil && c.hints.Placement != "" {
		want.Last, _ = r.Placed(c.hints.Placement)
	}
	if r.Strategy != nil {
		want.Strategy = r.Strategy(&want)
	}
	if want.Strategy == "" {
		want.Strategy = r.Router.Strategy()
	}
	if want.Strategy == affinity.FixedPrefix && c.prompt.Body != nil {
		// Characters of the message text, as SageMaker counts for its
		// OpenAI-compatible API.
		want.Prefix = c.prompt.FixedPrefix(r.Router.FixedPrefix().Length, canon.Characters)
	}
	return want
}

// pick returns a lease and the endpoint that it is for. It waits for what may
// come: the first endpoint, a model that was just loaded, room.
func (r *route) pick(ctx context.Context, c *call) (lease affinity.Lease, ep discovery.Endpoint, err error) {
	if c.overdue(time.Now()) {
		return lease, ep, ErrTotalTimeout
	}
	lease, ep, err = r.try(c)
	if err == nil {
		return lease, ep, nil
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	switch {
	case errors.Is(err, affinity.ErrNoEndpoints) && r.Wait != nil:
		if err = r.Wait(ctx); err == nil {
			return r.try(c)
		}
	case errors.Is(err, affinity.ErrModelNotServed) && r.ModelMissing != nil:
		if r.ModelMissing(ctx, c.prompt.Model) {
			return r.try(c)
		}
	case errors.Is(err, affinity.ErrOverLimit) && r.LimitWait > 0:
		lease, err = r.queue.pick(ctx, r.LimitWait, func() (affinity.Lease, error) {
			lease, ep, err = r.try(c)
			return lease, err
		})
	}
	return lease, ep, err
}

// try picks once, or a few times when what it picks has just left the fleet.
func (r *route) try(c *call) (lease affinity.Lease, ep discovery.Endpoint, err error) {
	want := c.want
	for range maxLookups {
		lease, err = r.Router.Pick(&want)
		if err != nil {
			return lease, ep, err
		}
		ep, ok := r.Lookup(lease.Endpoint())
		if ok {
			return lease, ep, nil
		}
		want.Tried = append(want.Tried[:len(want.Tried):len(want.Tried)], lease.Endpoint())
		lease.Release(affinity.Outcome{PromptTokens: -1, CachedTokens: -1, Boundaries: want.Boundaries})
	}
	return affinity.Lease{}, ep, affinity.ErrNoEndpoints
}

// maxLookups bounds how often a pick is repeated because its endpoint has
// just left; each repetition means one more change of the fleet.
const maxLookups = 16

// address returns a copy of req that goes to the endpoint of f.
func (r *route) address(req *http.Request, f *flight) *http.Request {
	ep := f.endpoint
	out := req.WithContext(f.ctx)
	// retryablehttp's attempts share the URL and the header, so both are
	// copied before they are changed.
	u := new(url.URL)
	*u = *req.URL
	u.Scheme, u.Host = ep.URL.Scheme, ep.URL.Host
	if prefix := strings.TrimSuffix(ep.URL.Path, "/"); prefix != "" {
		u.Path, u.RawPath = prefix+u.Path, ""
	}
	out.URL, out.Host = u, u.Host
	if out.Header = req.Header.Clone(); out.Header == nil {
		out.Header = http.Header{}
	}
	for name, values := range r.Header {
		out.Header[name] = values
	}
	if ep.Rank >= 0 {
		out.Header.Set("X-Data-Parallel-Rank", strconv.Itoa(ep.Rank))
	}
	if f.call.api != canon.Unknown && req.GetBody != nil {
		// Not sent on the wire; it lets net/http send the request again when
		// the server closed a kept-alive connection just as it was written.
		if _, set := out.Header["Idempotency-Key"]; !set {
			out.Header["Idempotency-Key"] = nil
		}
	}
	return out
}
