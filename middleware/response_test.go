package middleware

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A 200 is no answer yet: of one that is empty, cut short, or of another kind than
// was asked for, go-openai makes a clean io.EOF, or a complaint about JSON.
func TestAnswersThatAreNone(t *testing.T) {
	const event = `data: {"choices":[{"index":0,"delta":{"content":"yes"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	for name, tt := range map[string]struct {
		media, body string
		plain       error // to a plain request, nil: passed on
		stream      error // to a request for a stream
		attempts    int   // of the stream
	}{
		"empty":              {"application/json", "", io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, 2},
		"blank":              {"application/json", " \n", io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, 2},
		"empty, of no kind":  {"", "", io.ErrUnexpectedEOF, ErrTruncated, 2},
		"empty text":         {"text/plain", "", nil, ErrTruncated, 2},
		"a page":             {"text/html", "<html>\n", nil, io.ErrUnexpectedEOF, 2}, // nothing says that it is whole
		"cut short":          {"application/json", answerOK[:20], io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, 2},
		"whole":              {"application/json", answerOK, nil, ErrNotStreamed, 1},
		"whole, of no kind":  {"", answerOK, nil, ErrNotStreamed, 1},
		"whole, as text":     {"text/plain", answerOK, nil, ErrNotStreamed, 1},
		"cut short, as text": {"text/plain", answerOK[:20], nil, io.ErrUnexpectedEOF, 2},
		"only comments":      {"text/plain", ": ping\n\n", nil, ErrTruncated, 2},
		"an error":           {"application/json", `{"error":{"message":"no"}}`, nil, nil, 1},
		"an error as text":   {"text/plain", `{"error":{"message":"no"}}`, nil, nil, 1},
		"a stream":           {"text/event-stream", event, ErrStreamed, nil, 1},
		"a stream unlabeled": {"", event, ErrStreamed, nil, 1},
		"a stream as text":   {"text/plain", event, nil, nil, 1},
		"a stream as JSON":   {"application/json", event, ErrStreamed, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, request := range []string{chat, chatStream} {
				f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
					resp, _ := status(200, tt.body)
					resp.ContentLength, resp.ProtoMajor = -1, 1 // it ends with the connection
					resp.Header.Set("Content-Type", tt.media)
					return resp, nil
				})
				want, attempts := tt.plain, 2
				if want == ErrStreamed { // others would answer no better
					attempts = 1
				}
				if request == chatStream {
					want, attempts = tt.stream, tt.attempts
				}
				resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{Max: 1}), chatPath, request)
				require.ErrorIs(t, err, want)
				if err != nil {
					require.Equal(t, attempts, f.attempts())
				} else {
					body, err := readAll(resp)
					require.NoError(t, err)
					require.Equal(t, tt.body, body)
				}
				require.Zero(t, f.inFlight())
			}
		})
	}
}

// A page that is known to be whole is a plain answer, such as that of a proxy which
// wants one to log in: no other endpoint answers better, and none is blamed.
func TestPagesAreNoStreams(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
		resp, err := status(200, "<html>\n")
		resp.ProtoMajor = 1
		resp.Header.Set("Content-Type", "text/html")
		return resp, err
	})
	_, err := post(t.Context(), f.chain(f.routing(), RetryOptions{}), chatPath, chatStream)
	require.ErrorIs(t, err, ErrNotStreamed)
	require.Equal(t, 1, f.attempts())
	for _, s := range f.router.Stats() {
		require.Zero(t, s.Failed)
		require.Zero(t, s.InFlight)
	}
}

// A stream in answer to a plain request is no fault of the endpoint's, and none at
// all where it is not known that the request was plain.
func TestStreamsNobodyAskedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		body, accept string
		want         error
	}{
		"plain":                 {chat, "application/json", ErrStreamed},
		"plain, said so":        {strings.Replace(chat, "{", `{"stream":false,`, 1), "", ErrStreamed},
		"a stream is accepted":  {chat, "application/json, text/event-stream", nil},
		"none of it":            {strings.Replace(chat, "{", `{"stream":null,`, 1), "", ErrStreamed},
		"a number, for true":    {strings.Replace(chat, "{", `{"stream":1,`, 1), "", nil},
		"a word, for true":      {strings.Replace(chat, "{", `{"stream":"yes",`, 1), "", nil},
		"two words on streams":  {strings.Replace(chat, "{", `{"stream":true,"stream":false,`, 1), "", nil},
		"not known to be plain": {`{"stream":`, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return events(hello + stop + done) })
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, chatPath, strings.NewReader(tt.body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", tt.accept)
			resp, err := f.chain(f.routing(), RetryOptions{Max: 1}).RoundTrip(req)
			require.ErrorIs(t, err, tt.want)
			require.Equal(t, 1, f.attempts())
			if err == nil {
				body, err := readAll(resp)
				require.NoError(t, err)
				require.Equal(t, hello+stop+done, body)
			}
			for _, s := range f.router.Stats() {
				require.Zero(t, s.Failed)
				require.Zero(t, s.InFlight)
			}
		})
	}
}

// What has no answer is none of these: a HEAD or an OPTIONS to a path that
// generates, as health checks and browsers send them.
func TestOtherMethodsHaveNoAnswer(t *testing.T) {
	for _, method := range []string{http.MethodHead, http.MethodOptions} {
		f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
			resp, err := status(http.StatusNoContent, "")
			resp.Header.Del("Content-Type")
			return resp, err
		})
		req, err := http.NewRequestWithContext(t.Context(), method, chatPath, nil)
		require.NoError(t, err)
		resp, err := f.chain(f.routing(), RetryOptions{}).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
		require.Equal(t, 1, f.attempts())
		require.Zero(t, f.inFlight())
	}
}

// Embeddings know no streams, so one that is asked for is no fault of the answer.
func TestEmbeddingsAreNotStreamed(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, `{"data":[]}`) })
	resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{}), strings.Replace(chatPath, "chat/completions", "embeddings", 1), `{"model":"m","input":"a","stream":true}`)
	require.NoError(t, err)
	body, err := readAll(resp)
	require.NoError(t, err)
	require.Equal(t, `{"data":[]}`, body)
}

// Where HTTP says how long an answer is, its JSON is the caller's business.
func TestFramedAnswersAreNotParsed(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
		resp, err := status(200, `{"choices":[`)
		resp.ProtoMajor = 1
		return resp, err
	})
	resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{}), chatPath, chat)
	require.NoError(t, err)
	body, err := readAll(resp)
	require.NoError(t, err)
	require.Equal(t, `{"choices":[`, body)
}
