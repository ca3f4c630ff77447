package middleware

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
)

const answerOK = `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":20,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":16}}}`

// Which statuses are tried elsewhere, and that the last answer of an engine
// reaches the caller with its body.
func TestRequirement04_RetryClassification(t *testing.T) {
	for code, attempts := range map[int]int{
		200: 1, 400: 1, 401: 1, 403: 1, 404: 1, 409: 1, 413: 1, 422: 1, 501: 1,
		408: 4, 429: 4, 500: 4, 502: 4, 503: 4, 504: 4,
	} {
		f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(code, `{"error":{"message":"no"}}`) })
		resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{MinWait: 1, MaxWait: 1}), chatPath, chat)
		require.NoError(t, err, code)
		require.Equal(t, code, resp.StatusCode)
		require.Equal(t, attempts, f.attempts(), code)
		body, err := readAll(resp)
		require.NoError(t, err)
		require.Equal(t, `{"error":{"message":"no"}}`, body)
		require.Zero(t, f.inFlight(), "an error response ends its lease at once")
		if code >= 400 {
			require.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
		}
		hosts := map[string]bool{}
		for _, s := range f.seen[:min(3, attempts)] {
			hosts[s.host] = true
		}
		require.Len(t, hosts, min(3, attempts), "each attempt goes to an endpoint that was not tried yet")
	}
}

func TestNotFoundIsRetriedOnceInAMixedFleet(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(404, `{}`) })
	resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{MinWait: 1, NotFound: func() bool { return true }}), chatPath, chat)
	require.NoError(t, err)
	require.Equal(t, 404, resp.StatusCode)
	require.Equal(t, 2, f.attempts())
}

func TestFailuresToConnectAreRetried(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	f := newFakeFleet(t, func(_ *http.Request, n int) (*http.Response, error) {
		if n < 3 {
			return nil, refused
		}
		return status(200, answerOK)
	})
	var failed []string
	r := f.routing()
	r.ConnectFailed = func(id string) { failed = append(failed, id) }
	resp, err := post(t.Context(), f.chain(r, RetryOptions{MinWait: 1}), chatPath, chat)
	require.NoError(t, err)
	require.Equal(t, "3", resp.Header.Get(HeaderAttempts))
	require.Equal(t, "failover", resp.Header.Get(HeaderOverflow))
	require.Len(t, failed, 2)

	f = newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return nil, refused })
	_, err = post(t.Context(), f.chain(f.routing(), RetryOptions{MinWait: 1}), chatPath, chat)
	var typed *Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, PhaseConnect, typed.Phase)
	require.Equal(t, 4, typed.Attempts)
	require.ErrorIs(t, err, refused)
	require.Zero(t, f.inFlight())
}

// A plain answer that breaks off, or that a stopping engine gave up, is sent
// elsewhere: the caller has nothing of it.
func TestBrokenPlainAnswersAreRetried(t *testing.T) {
	for name, broken := range map[string]func() (*http.Response, error){
		"cut": func() (*http.Response, error) {
			resp, _ := status(200, "")
			resp.Body, resp.ContentLength = io.NopCloser(cut(answerOK[:30])), int64(len(answerOK))
			return resp, nil
		},
		"aborted": func() (*http.Response, error) {
			return status(200, strings.Replace(answerOK, `"finish_reason":"stop"`, `"finish_reason": "abort"`, 1))
		},
	} {
		f := newFakeFleet(t, func(_ *http.Request, n int) (*http.Response, error) {
			if n == 1 {
				return broken()
			}
			return status(200, answerOK)
		})
		resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{MinWait: 1}), chatPath, chat)
		require.NoError(t, err, name)
		body, err := readAll(resp)
		require.NoError(t, err, name)
		require.Equal(t, answerOK, body, name)
		require.Equal(t, 2, f.attempts(), name)
	}
}

// Every attempt sends the same bytes, and the caller's request stays as it was.
func TestEveryAttemptSendsTheSameBytes(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(503, `{}`) })
	body := `{ "messages" : [ {"content":"\u0068ello","role":"user"} ], "model":"m" }`
	req, err := http.NewRequest(http.MethodPost, chatPath, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	before := req.Header.Clone()
	_, err = f.chain(f.routing(), RetryOptions{MinWait: 1}).RoundTrip(req)
	require.NoError(t, err)
	for _, s := range f.seen {
		require.JSONEq(t, chat, s.body)
		require.Equal(t, f.seen[0].body, s.body)
		require.NotContains(t, s.body, " ", "the bytes are canonical")
		require.Equal(t, "/v1/chat/completions", s.path)
	}
	require.Equal(t, before, req.Header)
	require.Equal(t, chatPath, req.URL.String())
	require.EqualValues(t, len(body), req.ContentLength)
}

// An upload is streamed, not buffered, and so gets one attempt.
func TestUploadsAreNotBuffered(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(503, `{}`) })
	pr, pw := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, "http://fleet.test/v1/files", pr)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	go func() {
		io.Copy(pw, io.LimitReader(rand.Reader, 1<<20))
		pw.Close()
	}()
	resp, err := f.chain(f.routing(), RetryOptions{}).RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, 503, resp.StatusCode)
	require.Equal(t, 1, f.attempts())
	require.Len(t, f.seen[0].body, 1<<20)
}

func TestBodyOverTheLimitIsRefusedBeforeSending(t *testing.T) {
	c, err := canon.New(canon.Options{MaxBytes: 1000})
	require.NoError(t, err)
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, `{}`) })
	rt := Chain(Canonicalize(c, CanonicalizeOptions{}), Retry(RetryOptions{}), Route(f.routing()))(f)
	for _, length := range []int64{2000, -1} {
		req, err := http.NewRequest(http.MethodPost, chatPath, io.NopCloser(bytes.NewReader(make([]byte, 2000))))
		require.NoError(t, err)
		req.ContentLength = length
		_, err = rt.RoundTrip(req)
		require.ErrorIs(t, err, canon.ErrTooLarge)
		var typed *Error
		require.ErrorAs(t, err, &typed)
		require.Equal(t, PhasePrepare, typed.Phase)
	}
	require.Zero(t, f.attempts())
}

// A fleet that refuses everything is sent no more than the budget on top of
// one attempt a call.
func TestRequirement05_RetryBudget(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(503, `{}`) })
	rt := f.chain(f.routing(), RetryOptions{MinWait: 1, MaxWait: 1})
	for range 1000 {
		_, err := post(t.Context(), rt, chatPath, chat)
		require.NoError(t, err)
	}
	require.Equal(t, 1000+budgetTokens/budgetRetryCost, f.attempts())

	// The waits grow, are random, and end at the cap; those for Retry-After
	// and the total limit have tests of their own below.
	m := &retrier{RetryOptions: RetryOptions{MinWait: 25 * time.Millisecond, MaxWait: 2 * time.Second}}
	for attempts, ceiling := range map[int]time.Duration{1: 25 * time.Millisecond, 4: 200 * time.Millisecond, 9: 2 * time.Second, 90: 2 * time.Second} {
		var least, most time.Duration = time.Hour, 0
		for range 1000 {
			w := m.backoff(new(call), attempts, nil)
			least, most = min(least, w), max(most, w)
		}
		require.LessOrEqual(t, most, ceiling)
		require.Greater(t, most, ceiling*9/10, attempts)
		require.Less(t, least, ceiling/10, "full jitter")
	}
}

// A Retry-After is about one endpoint: another one is asked at once, and that
// endpoint is left alone for as long; where there is no other, the call waits.
func TestRetryAfterIsHonouredAndCapped(t *testing.T) {
	for header, wait := range map[string]time.Duration{"2": 2 * time.Second, "86400": 10 * time.Second, "nonsense": 0, "-5": 0} {
		for _, endpoints := range []int{1, 3} {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeFleet(t, func(_ *http.Request, n int) (*http.Response, error) {
					if n > 1 {
						return status(200, answerOK)
					}
					resp, err := status(503, `{}`)
					resp.Header.Set("Retry-After", header)
					return resp, err
				})
				f.eject(endpoints)
				if endpoints > 1 {
					wait = 0
				}
				begin := time.Now()
				rt := f.chain(f.routing(), RetryOptions{})
				resp, err := post(t.Context(), rt, chatPath, chat)
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
				require.InDelta(t, wait, time.Since(begin), float64(25*time.Millisecond), header)
				if endpoints == 3 && header == "2" {
					again, err := post(t.Context(), rt, chatPath, chat)
					require.NoError(t, err)
					require.Equal(t, "unavailable", again.Header.Get(HeaderOverflow), "the busy one is left alone")
					<-time.After(2 * time.Second) // the bubble's clock
					again, err = post(t.Context(), rt, chatPath, chat)
					require.NoError(t, err)
					require.Empty(t, again.Header.Get(HeaderOverflow))
				}
			})
		}
	}
}

func TestCancelWhileWaitingToRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
			resp, err := status(503, `{"error":{"message":"busy"}}`)
			resp.Header.Set("Retry-After", "9")
			return resp, err
		})
		f.eject(1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		_, err := post(ctx, f.chain(f.routing(), RetryOptions{}), chatPath, chat)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "status 503")
		require.Equal(t, time.Second, time.Since(begin))
		require.Zero(t, f.inFlight())
	})
}

// A wait that a limit would cut short is not begun: what the engine has said
// is worth more to the caller than a timeout.
func TestNoWaitBeyondTheDeadline(t *testing.T) {
	for name, o := range map[string]RetryOptions{"context": {}, "total": {Total: time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
				resp, err := status(503, `{"error":{"message":"busy"}}`)
				resp.Header.Set("Retry-After", "9")
				return resp, err
			})
			f.eject(1)
			ctx := t.Context()
			if name == "context" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Second)
				defer cancel()
			}
			begin := time.Now()
			resp, err := post(ctx, f.chain(f.routing(), o), chatPath, chat)
			require.NoError(t, err, name)
			body, err := readAll(resp)
			require.NoError(t, err)
			require.Equal(t, 503, resp.StatusCode)
			require.Contains(t, body, "busy")
			require.Zero(t, time.Since(begin))
			require.Equal(t, 1, f.attempts())
		})
	}
}

// A request may be what breaks the engines: two are enough.
func TestRequestThatBreaksEnginesIsNotCarriedOn(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}
	})
	_, err := post(t.Context(), f.chain(f.routing(), RetryOptions{MinWait: 1}), chatPath, chat)
	var typed *Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, 2, typed.Attempts)
	require.Equal(t, 2, f.attempts())
}

// With retries off, a body that nothing above has buffered arrives whole.
func TestBodyWithoutRetries(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(503, `{}`) })
	resp, err := post(t.Context(), Chain(Retry(RetryOptions{Max: -1}), Route(f.routing()))(f), chatPath, chat)
	require.NoError(t, err)
	require.Equal(t, 503, resp.StatusCode)
	require.Equal(t, 1, f.attempts())
	require.Equal(t, chat, f.seen[0].body)
}

// Retry stands alone too: without Route below it retries what the transport
// reports.
func TestRetryAlone(t *testing.T) {
	n := 0
	rt := Retry(RetryOptions{MinWait: 1})(roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		n++
		body, _ := io.ReadAll(req.Body)
		require.Equal(t, chat, string(body))
		switch n {
		case 1:
			return nil, io.ErrUnexpectedEOF
		case 2:
			return status(502, "")
		}
		return status(200, answerOK)
	}))
	resp, err := post(t.Context(), rt, chatPath, chat)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, 3, n)
}

func TestRetriesAreTraced(t *testing.T) {
	f := newFakeFleet(t, func(_ *http.Request, n int) (*http.Response, error) {
		if n == 1 {
			return status(500, `{}`)
		}
		return status(200, answerOK)
	})
	var log []any
	trace := &Trace{
		Picked:   func(p Picked) { p.SetHeader, p.URL = nil, nil; log = append(log, p) },
		Retrying: func(r Retrying) { r.Wait = 0; log = append(log, r) },
		Done:     func(d Done) { log = append(log, d) },
	}
	ctx := WithTrace(t.Context(), trace)
	begin := time.Now()
	_, err := post(ctx, f.chain(f.routing(), RetryOptions{MinWait: 1}), chatPath, chat)
	require.NoError(t, err)
	prompt, err := canon.Canonicalize(canon.Chat, []byte(chat))
	require.NoError(t, err)
	last := &log[len(log)-1]
	done := (*last).(Done)
	require.WithinRange(t, done.Start, begin, time.Now())
	require.WithinRange(t, done.Start.Add(done.Total), done.Start, time.Now())
	done.Start, done.Total = time.Time{}, 0
	*last = done
	first, next := log[0].(Picked), log[2].(Picked)
	require.Equal(t, first.Home, first.Endpoint)
	require.NotEqual(t, first.Endpoint, next.Endpoint)
	require.Equal(t, []any{
		Picked{Attempt: 1, Endpoint: first.Endpoint, Home: first.Endpoint, Strategy: "affinity", Reason: "home",
			API: canon.Chat, Model: "m"},
		Retrying{Attempt: 1, Endpoint: first.Endpoint, Status: 500},
		Picked{Attempt: 2, Endpoint: next.Endpoint, Home: first.Endpoint, Strategy: "affinity", Reason: "failover", Overflow: true,
			API: canon.Chat, Model: "m"},
		Done{Endpoint: next.Endpoint, Strategy: "affinity", Reason: "failover", Overflow: true, Attempts: 2, API: canon.Chat,
			Model: "m", Head: prompt.Head, Root: prompt.Root, Boundaries: prompt.Boundaries,
			Status: 200, PromptTokens: 20, CachedTokens: 16, CompletionTokens: 2},
	}, log)
}

func TestNoEndpointServesTheModel(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
	require.NoError(t, f.router.Set([]affinity.Endpoint{{ID: "a", Models: []string{"x", "y"}}}))
	_, err := post(t.Context(), f.chain(f.routing(), RetryOptions{}), chatPath, chat)
	require.ErrorIs(t, err, affinity.ErrModelNotServed)
	require.ErrorContains(t, err, "x, y")
	require.Zero(t, f.attempts())
}

// The error that says most stays: neither what go-retryablehttp wraps around it nor
// what a transport has put into it.
func TestFinalErrorIsTheTypedOne(t *testing.T) {
	typed := &Error{Phase: PhaseConnect, Err: errors.Join(ErrConnectTimeout, &url.Error{Op: "Post", URL: "http://a", Err: io.EOF})}
	require.Equal(t, error(typed), final(&call{}, typed))
	require.Equal(t, error(typed), final(&call{}, &url.Error{Op: "Post", URL: "http://b", Err: typed}))
	var e *Error
	require.ErrorAs(t, final(&call{}, &url.Error{Op: "Post", URL: "http://b", Err: context.Canceled}), &e)
	require.Equal(t, PhaseFirstByte, e.Phase)
	require.ErrorIs(t, e, context.Canceled)
}
