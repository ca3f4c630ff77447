package middleware

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/prefixwise/prefixwise/canon"
)

// RetryOptions are the settings of [Retry]. The zero value works.
type RetryOptions struct {
	// Max is the number of attempts after the first one. Zero means 3;
	// a negative number means none.
	Max int
	// MinWait and MaxWait bound the random wait before an attempt, which
	// doubles with each. Zero means 25 ms and 2 s: another endpoint is tried
	// at once, more or less, and only a fleet in trouble is waited for.
	MinWait, MaxWait time.Duration
	// MaxRetryAfter caps the Retry-After that an endpoint asks for. Zero
	// means 10 s.
	MaxRetryAfter time.Duration
	// Total bounds a call with all its attempts, the body included. Zero
	// means no bound but the request's context.
	Total time.Duration
	// NotFound, when not nil, tells whether the fleet is mixed: its endpoints
	// serve different models, as while one is being rolled out. A 404 is then
	// tried once more, elsewhere.
	NotFound func() bool
}

// Retry sends a failed attempt again. The first is made directly; those that
// follow are go-retryablehttp's, with the endpoints that were tried excluded by
// [Route], which must be below it.
//
// A Retry-After is about the endpoint that sent it. While there is another one
// that the call has not tried, that is asked at once, and [Route] leaves the
// busy one alone for as long as it said; when all have been tried, the call
// waits for as long, up to MaxRetryAfter. A wait that the context or the total
// limit would cut short is not begun: the caller gets the last response now.
//
// A call whose connection broke twice while an engine worked on it is not sent
// a third time: it may be what breaks the engines.
//
// Retried are failures to connect, failures before the first content, and the
// statuses 408, 429, 500, 502, 503 and 504; for requests whose body is known
// and can be sent again, to paths that generate or read. A 400, 401, 403,
// 404, 422 or 501 is not. All calls share one budget (500 tokens; a retry
// costs five, one if there was no connection, and a success earns one). The last response always reaches the
// caller, with the header X-Should-Retry: false, so that an SDK with retries
// of its own does not multiply them.
func Retry(o RetryOptions) Middleware {
	if o.Max == 0 {
		o.Max = 3
	}
	o.Max = max(o.Max, 0)
	if o.MinWait <= 0 {
		o.MinWait = 25 * time.Millisecond
	}
	if o.MaxWait <= 0 {
		o.MaxWait = 2 * time.Second
	}
	o.MaxWait = max(o.MaxWait, o.MinWait)
	if o.MaxRetryAfter <= 0 {
		o.MaxRetryAfter = 10 * time.Second
	}
	b := newBudget()
	return func(next http.RoundTripper) http.RoundTripper {
		return &retrier{RetryOptions: o, next: next, budget: b}
	}
}

type retrier struct {
	RetryOptions
	next   http.RoundTripper
	budget *budget
}

func (m *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	req, c, owner := callOf(req)
	if m.Total > 0 {
		c.deadline = c.start.Add(m.Total)
	}
	resp, err := m.roundTrip(req, c)
	if err == nil && resp.StatusCode < 400 {
		m.budget.refund()
	}
	if owner {
		c.finish(resp, err)
	}
	return resp, err
}

// roundTrip makes the first attempt itself. That is nearly always the only one,
// and go-retryablehttp with the http.Client in it costs as much as the pick.
func (m *retrier) roundTrip(req *http.Request, c *call) (*http.Response, error) {
	if m.Max == 0 {
		return m.next.RoundTrip(req)
	}
	req, ok, err := replayable(req, c)
	if err != nil {
		return nil, &Error{Phase: PhasePrepare, Err: err}
	}
	if !ok {
		// Uploads and bodies of unknown size are not buffered, so they get
		// one attempt.
		return m.next.RoundTrip(req)
	}
	resp, err := m.next.RoundTrip(req)
	if m.check(req.Context(), c, 1, resp, err) {
		resp, err = m.again(req, c, resp, err)
	}
	if err != nil {
		return nil, final(c, err)
	}
	if resp.StatusCode >= 400 {
		resp.Header.Set("X-Should-Retry", "false")
	}
	return resp, nil
}

// again has go-retryablehttp go on from the first attempt, which came to resp or
// failed and is to be followed by another.
func (m *retrier) again(req *http.Request, c *call, resp *http.Response, failed error) (*http.Response, error) {
	// A clone, since retryablehttp replaces the body of what it is given.
	clone := req.WithContext(req.Context())
	clone.Body = nil
	r, err := retryablehttp.FromRequest(clone)
	if err == nil && c.body != nil {
		err = r.SetBody(c.body)
	}
	if err != nil {
		return nil, &Error{Phase: PhasePrepare, Err: err}
	}
	// One retryablehttp.Client for each call: its callbacks are not told which
	// call they are asked about.
	sent, checked := 0, 0
	client := retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport: roundTripperFunc(func(req *http.Request) (*http.Response, error) {
				if sent++; sent == 1 {
					return resp, failed
				}
				return m.next.RoundTrip(req)
			}),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax: m.Max,
		CheckRetry: func(ctx context.Context, resp *http.Response, err error) (bool, error) {
			// Never an error: beside a response, net/http would drop the response.
			checked++
			return checked == 1 || m.check(ctx, c, checked, resp, err), nil
		},
		Backoff: func(_, _ time.Duration, _ int, resp *http.Response) time.Duration {
			return c.retrying(resp)
		},
		// Without it the last response would be replaced by an error of
		// retryablehttp's own, and callers would see no status.
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	return client.Do(r)
}

// final turns what the attempts have ended with into the error that the caller gets.
func final(c *call, err error) error {
	// The http.Client in go-retryablehttp wraps the error in a *url.Error; the
	// caller's own will do it again. One further down says what happened.
	if wrapped, ok := err.(*url.Error); ok {
		err = wrapped.Err
	}
	var typed *Error
	if errors.As(err, &typed) {
		return err
	}
	// The wait for the next attempt was cut short.
	phase := PhaseFirstByte
	if c.last != nil {
		phase = c.last.Phase
	}
	return &Error{Phase: phase, Endpoint: c.done.Endpoint, Attempts: c.attempts, Err: c.after(err)}
}

// replayable returns the request to send, and whether that may be done more than
// once: c.body is then what every attempt sends.
func replayable(req *http.Request, c *call) (*http.Request, bool, error) {
	switch {
	case req.Method == http.MethodGet || req.Method == http.MethodHead:
		return req, req.Body == nil || req.Body == http.NoBody, nil
	case c.api == canon.Unknown:
		return req, false, nil
	case c.body != nil:
		return req, true, nil
	case req.GetBody == nil || req.ContentLength <= 0 || !isJSON(req.Header):
		return req, false, nil
	}
	defer req.Body.Close()
	body := make([]byte, req.ContentLength)
	if err := readWhole(req, body); err != nil {
		return nil, false, err
	}
	c.body = body
	out := req.WithContext(req.Context())
	setBody(out, body)
	return out, true, nil
}

// check decides whether an attempt is followed by another, and after what
// wait. It sees the header, which Backoff would see too late to say no.
func (m *retrier) check(ctx context.Context, c *call, attempts int, resp *http.Response, err error) bool {
	c.last = nil
	if ctx.Err() != nil || err == nil && !m.worthRepeating(resp.StatusCode, attempts) {
		return false
	}
	last := &Error{Phase: PhaseFirstByte, Endpoint: c.done.Endpoint, Attempts: attempts}
	switch {
	case err == nil:
		last.Err = statusError(resp.StatusCode)
	case !errors.As(err, &last):
		// Route is not below; the error is the transport's own.
		last.Err, last.lost = err, connectionLost(err) && !beforeSending(err)
	case !last.retryable:
		return false
	}
	if last.lost {
		c.lost++
	}
	now := time.Now()
	c.wait = m.backoff(c, attempts, resp)
	next := now.Add(c.wait)
	if deadline, ok := ctx.Deadline(); c.lost >= maxLost || c.overdue(next) || ok && !next.Before(deadline) {
		return false
	}
	c.last = last
	cost := int64(budgetRetryCost)
	if last.Phase == PhaseConnect {
		cost = budgetConnectCost
	}
	// The last attempt pays nothing, since no other follows.
	return attempts > m.Max || m.budget.take(cost)
}

func (m *retrier) worthRepeating(status, attempts int) bool {
	return retryableStatus(status) || status == http.StatusNotFound && attempts == 1 && m.NotFound != nil && m.NotFound()
}

// backoff returns the time until the next attempt: full jitter, and a capped
// Retry-After when there is nobody else to ask.
func (m *retrier) backoff(c *call, attempts int, resp *http.Response) time.Duration {
	ceiling := m.MaxWait
	if attempts <= 16 { // beyond, the shift could overflow
		ceiling = min(m.MinWait<<(attempts-1), m.MaxWait)
	}
	wait := rand.N(ceiling + 1)
	if resp == nil {
		return wait
	}
	if after, ok := retryAfter(resp.Header.Get("Retry-After")); ok && !c.elsewhere() {
		wait = max(wait, min(after, m.MaxRetryAfter))
	}
	return wait
}

// retrying tells the traces that another attempt follows, and returns the wait
// before it.
func (c *call) retrying(resp *http.Response) time.Duration {
	info := Retrying{Attempt: c.attempts, Endpoint: c.done.Endpoint, Wait: c.wait}
	if resp != nil {
		info.Status = resp.StatusCode
	} else if c.last != nil {
		info.Err = c.last
	}
	for _, t := range c.traces {
		if t.Retrying != nil {
			t.Retrying(info)
		}
	}
	return c.wait
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(value string) (time.Duration, bool) {
	if value == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0), true
	}
	return 0, false
}
