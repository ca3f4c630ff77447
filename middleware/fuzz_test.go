package middleware

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/affinity"
)

// splitting reads text in pieces whose lengths are the bytes of sizes, in turn.
type splitting struct {
	text, sizes string
	turn        int
}

func (s *splitting) Read(p []byte) (int, error) {
	if s.text == "" {
		return 0, io.EOF
	}
	n := len(s.text)
	if s.sizes != "" {
		n = min(n, 1+int(s.sizes[s.turn%len(s.sizes)]))
		s.turn++
	}
	n = copy(p, s.text[:n])
	s.text = s.text[n:]
	return n, nil
}

// Whatever bytes an engine sends, and however they are split: no panic, what
// reaches the caller is a beginning of them (nothing is added, reordered or
// made up; no usage is held back and no reasoning mapped here), a clean end
// means that all of it did, the split changes nothing, and the lease ends.
func FuzzStream(f *testing.F) {
	f.Add(role+hello+stop+done, "\x03")
	f.Add(strings.ReplaceAll(hello+stop+done, "\n", "\r\n"), "\x00\x07")
	f.Add(hello+": ping\n\n"+failure+done, "")
	f.Add("data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"x\"}}]}\n\n"+stop+done, "\x01")
	f.Add(hello+abort+done, "\x10")
	f.Add("\xff\xfe data: [DONE] \r data:\n\n\n", "\x02")
	router, err := affinity.New(affinity.Options{})
	require.NoError(f, err)
	require.NoError(f, router.Set([]affinity.Endpoint{{ID: "a"}}))
	f.Fuzz(func(t *testing.T, body, sizes string) {
		if strings.Contains(body, "reasoning") {
			return
		}
		fleet := &fakeFleet{t: t, router: router}
		read := func(sizes string) (string, error) {
			fleet.answer = func(*http.Request, int) (*http.Response, error) {
				return eventsFrom(&splitting{text: body, sizes: sizes})
			}
			request := strings.Replace(chatStream, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
			resp, err := post(t.Context(), fleet.chain(fleet.routing(), RetryOptions{Max: -1}), chatPath, request)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			return readAll(resp)
		}
		got, err := read(sizes)
		require.True(t, strings.HasPrefix(body, got), "%q of %q", got, body)
		if err == nil {
			require.Equal(t, body, got)
			require.Contains(t, body, "[DONE]")
		} else {
			require.ErrorAs(t, err, new(*Error))
		}
		whole, wholeErr := read("")
		require.Equal(t, whole, got)
		require.Equal(t, wholeErr == nil, err == nil)
		require.Zero(t, fleet.inFlight())
	})
}

// Whatever status, header and body an engine answers with, or error a transport
// has: what is not retryable is asked once, the last response and its body
// reach the caller, and an error has its type.
func FuzzClassify(f *testing.F) {
	f.Add(503, "1", "busy", "")
	f.Add(404, "", `{"error":"no"}`, "")
	f.Add(200, "", "", "connection reset")
	f.Add(429, "Wed, 21 Oct 2015 07:28:00 GMT", "", "")
	f.Add(501, "-1", "\x00", "EOF")
	router, err := affinity.New(affinity.Options{Ejection: &affinity.Ejection{}})
	require.NoError(f, err)
	require.NoError(f, router.Set([]affinity.Endpoint{{ID: "a"}, {ID: "b"}}))
	f.Fuzz(func(t *testing.T, code int, after, body, broken string) {
		if code < 200 || code > 599 {
			return
		}
		fleet := &fakeFleet{t: t, router: router}
		fleet.answer = func(*http.Request, int) (*http.Response, error) {
			if broken != "" {
				return nil, errors.New(broken)
			}
			resp, err := status(code, body)
			resp.Header.Set("Retry-After", after)
			resp.Header.Set("Content-Type", "text/plain")
			return resp, err
		}
		resp, err := post(t.Context(), fleet.chain(fleet.routing(), RetryOptions{MinWait: 1, MaxWait: 1, MaxRetryAfter: 1}), chatPath, chat)
		attempts := 1
		if broken != "" || retryableStatus(code) {
			attempts = 4
		}
		require.Equal(t, attempts, fleet.attempts())
		switch {
		case broken != "" || code/100 == 3:
			require.ErrorAs(t, err, new(*Error))
		default:
			require.NoError(t, err)
			require.Equal(t, code, resp.StatusCode)
			got, err := readAll(resp)
			require.NoError(t, err)
			require.Equal(t, body[:min(len(body), maxErrorBody)], got)
		}
		require.Zero(t, fleet.inFlight())
	})
}
