package middleware

import (
	"errors"
	"io"
	"net/http"
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

func TestHeaderNames(t *testing.T) {
	for name, want := range map[string]bool{"X-A": true, "x!#$%&'*+-.^_`|~9": true, "": false, "a b": false, "a:b": false, "ä": false, "a\n": false, "(a)": false} {
		require.Equal(t, want, isToken(name), "%q", name)
	}
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
