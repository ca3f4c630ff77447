package middleware

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/discovery"
)

// A fakeFleet answers in process, so that tests in a synctest bubble can use
// it: real sockets are not durably blocking there.
type fakeFleet struct {
	t      *testing.T
	router *affinity.Router
	mu     sync.Mutex
	seen   []seen
	answer func(req *http.Request, n int) (*http.Response, error) // n counts from 1
}

type seen struct {
	host   string
	path   string
	header http.Header
	body   string
}

func newFakeFleet(t *testing.T, answer func(req *http.Request, n int) (*http.Response, error)) *fakeFleet {
	t.Helper()
	router, err := affinity.New(affinity.Options{})
	require.NoError(t, err)
	require.NoError(t, router.Set([]affinity.Endpoint{{ID: "a"}, {ID: "b"}, {ID: "c"}}))
	f := &fakeFleet{t: t, router: router, answer: answer}
	return f
}

func (f *fakeFleet) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		req.Body.Close()
	}
	f.mu.Lock()
	f.seen = append(f.seen, seen{req.URL.Host, req.URL.Path, req.Header.Clone(), string(body)})
	n := len(f.seen)
	f.mu.Unlock()
	resp, err := f.answer(req, n)
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}

func (f *fakeFleet) lookup(id string) (discovery.Endpoint, bool) {
	return discovery.Endpoint{ID: id, URL: &url.URL{Scheme: "http", Host: id + ".test"}, Rank: -1}, true
}

func (f *fakeFleet) attempts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

// eject gives the fleet n endpoints, and a router that sets failing ones aside.
func (f *fakeFleet) eject(n int) {
	f.t.Helper()
	router, err := affinity.New(affinity.Options{Ejection: &affinity.Ejection{}})
	require.NoError(f.t, err)
	all := []affinity.Endpoint{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "e"}, {ID: "f"}, {ID: "g"}, {ID: "h"}}
	require.NoError(f.t, router.Set(all[:n]))
	f.router = router
}

// inFlight adds up what the router believes to be under way.
func (f *fakeFleet) inFlight() int {
	n := 0
	for _, e := range f.router.Stats() {
		n += e.InFlight
	}
	return n
}

func (f *fakeFleet) routing() Routing { return Routing{Router: f.router, Lookup: f.lookup} }

// chain is the whole chain over the fake fleet.
func (f *fakeFleet) chain(r Routing, o RetryOptions) http.RoundTripper {
	c, err := canon.New(canon.Options{IncludeUsage: true, ReasoningName: "reasoning"})
	require.NoError(f.t, err)
	return Chain(Canonicalize(c, CanonicalizeOptions{}), Retry(o), Route(r))(f)
}

const chatPath = "http://fleet.test/v1/chat/completions"

func post(ctx context.Context, rt http.RoundTripper, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return rt.RoundTrip(req)
}

const chat = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
const chatStream = `{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true}`

func status(code int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}, nil
}

// events answers with a stream of the given bytes, then EOF.
func events(body string) (*http.Response, error) { return eventsFrom(strings.NewReader(body)) }

func eventsFrom(r io.Reader) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}},
		Body: io.NopCloser(r), ContentLength: -1}, nil
}

// cut reads r and then fails like a connection that breaks.
func cut(r string) io.Reader {
	return io.MultiReader(strings.NewReader(r), readerFunc(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }))
}

// silent reads r and then blocks until ctx ends.
func silent(ctx context.Context, r string) io.Reader {
	return io.MultiReader(strings.NewReader(r), readerFunc(func([]byte) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}))
}

func readAll(resp *http.Response) (string, error) {
	var b bytes.Buffer
	_, err := b.ReadFrom(resp.Body)
	return b.String(), err
}

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
