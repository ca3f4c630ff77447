package middleware

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// What is wrong with a request is not the endpoints' fault: with five uploads of a
// broken file, or five calls with a line break in the key, half of a healthy fleet
// was set aside.
func TestFaultsOfTheRequest(t *testing.T) {
	broken := errors.New("the disk broke")
	for name, tt := range map[string]struct {
		path   string
		body   io.Reader
		size   int64
		header string
		want   string
	}{
		"reader":     {"/files", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), 0, "a", "prepare: reading the request body: the disk broke"},
		"too short":  {"/files", io.NopCloser(strings.NewReader("abc")), 10, "a", "Content-Length of 10 bytes"},
		"too long":   {"/files", io.NopCloser(strings.NewReader("abc")), 2, "a", "Content-Length of 2 bytes"},
		"line break": {"/chat/completions", strings.NewReader(chat), int64(len(chat)), "secret\n", "the header Authorization has a control character"},
		"long JSON":  {"/chat/completions", io.NopCloser(strings.NewReader(chat + "!")), int64(len(chat)), "a", "longer than its Content-Length"},
		"JSON":       {"/chat/completions", io.MultiReader(strings.NewReader("{"), iotest.ErrReader(broken)), 0, "a", "prepare: reading the request body: the disk broke"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeFleet(t, nil)
			refusing := roundTripperFunc(func(req *http.Request) (*http.Response, error) {
				// As net/http: it looks at the header, then it reads the body.
				if strings.Contains(req.Header.Get("Authorization"), "\n") {
					return nil, errors.New("net/http: invalid header field value")
				}
				n, err := io.Copy(io.Discard, req.Body)
				if err == nil && n != req.ContentLength {
					err = errors.New("http: ContentLength with another Body length")
				}
				req.Body.Close()
				return nil, err
			})
			c, err := canon.New(canon.Options{})
			require.NoError(t, err)
			chain := Chain(Canonicalize(c, CanonicalizeOptions{}), Retry(RetryOptions{}), Route(f.routing()))(refusing)
			req, err := http.NewRequest(http.MethodPost, "http://fleet.test/v1"+tt.path, tt.body)
			require.NoError(t, err)
			req.ContentLength = tt.size
			req.Header.Set("Authorization", tt.header)
			req.Header.Set("Content-Type", "application/json")
			if tt.path == "/files" {
				req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
			}
			_, err = chain.RoundTrip(req)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "secret")
			var e *Error
			require.ErrorAs(t, err, &e)
			require.LessOrEqual(t, e.Attempts, 1, "no other endpoint would fare better")
			for _, s := range f.router.Stats() {
				require.Zero(t, s.Failed, "%+v", s)
				require.Zero(t, s.InFlight)
			}
		})
	}
}

// What net/http does not send because of its method or a header is the request's
// fault, byte by byte, and nothing else is.
func TestFaultsAreThoseOfNetHTTP(t *testing.T) {
	unreachable := errors.New("unreachable")
	base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, unreachable }}
	faulty := func(change func(*http.Request)) bool {
		req := &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: "a.test"}, Header: http.Header{}}
		change(req)
		trailer := faultOf(req.Trailer)
		_, err := base.RoundTrip(req)
		require.Error(t, err)
		fault := errors.As(blame(req, trailer, err), new(requestFault))
		require.Equal(t, !errors.Is(err, unreachable), fault, "%q %q %q: %v", req.Method, req.Header, req.Trailer, err)
		return fault
	}
	faults := 0
	for b := range 256 {
		text := string([]byte{'a', byte(b), 'z'})
		for _, change := range []func(*http.Request){
			func(req *http.Request) { req.Method = text },
			func(req *http.Request) { req.Header[text] = []string{"x"} },
			func(req *http.Request) { req.Header["X"] = []string{"x", text} },
			func(req *http.Request) { req.Trailer = http.Header{text: {"x"}} },
		} {
			if faulty(change) {
				faults++
			}
		}
	}
	require.Equal(t, 3*(256-77)+32, faults, "77 characters make tokens; 31 control characters and DEL no value")
	require.True(t, faulty(func(req *http.Request) { req.Header[""] = []string{"x"} }))
	require.False(t, faulty(func(req *http.Request) { req.Method = "" }), "it means GET")
}

// A body sets its trailer as it is read, which may go on after RoundTrip: whatever
// the value, net/http sends it, and nobody else looks at it by then.
func TestTrailerSetByTheBody(t *testing.T) {
	reset := errors.New("connection reset")
	for name, awaited := range map[string]bool{"before RoundTrip returns": true, "while it does": false} {
		t.Run(name, func(t *testing.T) {
			read := make(chan struct{})
			f := newFakeFleet(t, nil)
			losing := roundTripperFunc(func(req *http.Request) (*http.Response, error) {
				go func() {
					defer close(read)
					_, _ = io.Copy(io.Discard, req.Body)
				}()
				if awaited {
					<-read
				}
				return nil, reset
			})
			req, err := http.NewRequest(http.MethodPost, "http://fleet.test/v1/files", nil)
			require.NoError(t, err)
			req.Trailer = http.Header{"X-Sum": nil}
			req.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
				req.Trailer["X-Sum"] = []string{"a\nb"}
				return 0, io.EOF
			}))
			_, err = Chain(Retry(RetryOptions{Max: -1}), Route(f.routing()))(losing).RoundTrip(req)
			<-read
			require.ErrorIs(t, err, reset)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, PhaseFirstByte, e.Phase)
		})
	}
}

// net/http's own RoundTripper refuses a request without a header map; a client's
// gives it one.
func TestRequestWithoutHeader(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
	r := f.routing()
	r.Header = http.Header{"Authorization": {"Bearer fleet"}}
	u, err := url.Parse(chatPath)
	require.NoError(t, err)
	resp, err := f.chain(r, RetryOptions{}).RoundTrip(&http.Request{Method: http.MethodPost, URL: u, Body: io.NopCloser(strings.NewReader(chat))})
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "Bearer fleet", f.seen[0].header.Get("Authorization"))
}

// To net/http, a length of 0 beside a body is one that is not known.
func TestBodyOfUnknownLength(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
	resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{}), chatPath, chat)
	require.NoError(t, err)
	resp.Body.Close()
	req, err := http.NewRequest(http.MethodPost, chatPath, iotest.OneByteReader(strings.NewReader(chat)))
	require.NoError(t, err)
	require.Zero(t, req.ContentLength)
	req.Header.Set("Content-Type", "application/json")
	resp, err = f.chain(f.routing(), RetryOptions{}).RoundTrip(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, f.seen[0].body, f.seen[1].body)
	require.Contains(t, f.seen[1].body, "hello")
}

func TestNilTrace(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
	resp, err := post(WithTrace(t.Context(), nil), f.chain(f.routing(), RetryOptions{}), chatPath, chat)
	require.NoError(t, err)
	resp.Body.Close()
}

func TestNilBaseTransport(t *testing.T) {
	require.NotNil(t, NewTransport(TransportOptions{Base: (*http.Transport)(nil)}).base)
}
