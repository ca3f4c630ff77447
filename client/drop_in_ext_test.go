package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/middleware"
)

// plainServer answers everything like an OpenAI server that has no opinion,
// and notes what it was asked.
type plainServer struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newPlainServer(t *testing.T, answer http.HandlerFunc) *plainServer {
	t.Helper()
	s := new(plainServer)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *plainServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// newClient returns a client without background checks, so that the only
// requests are the test's.
func newClient(t *testing.T, url string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(append([]client.Option{client.WithEndpoints(url), client.WithAPIKey("secret"),
		client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

const goodStream = `data: {"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":"stop"}]}

data: [DONE]

`

// Every method of the embedded client is there with the same signature, and
// sends its request to the fleet.
func TestEveryMethodReachesTheFleet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file.txt")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	upload := func() *os.File {
		f, err := os.Open(file)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	// Arguments that a zero value does not satisfy.
	special := map[reflect.Type]any{
		reflect.TypeFor[openai.ChatCompletionRequest]():            openai.ChatCompletionRequest{Model: "m", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "x"}}},
		reflect.TypeFor[openai.CompletionRequest]():                openai.CompletionRequest{Model: "m", Prompt: "x"},
		reflect.TypeFor[openai.EmbeddingRequestConverter]():        openai.EmbeddingRequestStrings{Model: "m", Input: []string{"x"}},
		reflect.TypeFor[openai.CreateResponseRequest]():            openai.CreateResponseRequest{Model: "m", Input: "x"},
		reflect.TypeFor[openai.FileRequest]():                      openai.FileRequest{FileName: "f", FilePath: file, Purpose: "batch"},
		reflect.TypeFor[openai.FileBytesRequest]():                 openai.FileBytesRequest{Name: "f", Bytes: []byte("x"), Purpose: "batch"},
		reflect.TypeFor[openai.AudioRequest]():                     openai.AudioRequest{Model: "m", FilePath: file},
		reflect.TypeFor[openai.CreateSpeechRequest]():              openai.CreateSpeechRequest{Model: "tts-1", Input: "x", Voice: "alloy"},
		reflect.TypeFor[openai.ImageEditRequest]():                 openai.ImageEditRequest{Image: upload(), Mask: upload(), Prompt: "x", N: 1, Size: "256x256"},
		reflect.TypeFor[openai.ImageVariRequest]():                 openai.ImageVariRequest{Image: upload(), N: 1, Size: "256x256"},
		reflect.TypeFor[openai.ModerationRequest]():                openai.ModerationRequest{Model: "omni-moderation-latest", Input: "x"},
		reflect.TypeFor[openai.UploadBatchFileRequest]():           openai.UploadBatchFileRequest{FileName: "f"},
		reflect.TypeFor[openai.CreateBatchWithUploadFileRequest](): openai.CreateBatchWithUploadFileRequest{Endpoint: "/v1/chat/completions", CompletionWindow: "24h"},
		reflect.TypeFor[map[string]string]():                       map[string]string{},
	}
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			if strings.HasSuffix(r.URL.Path, "/responses") {
				fmt.Fprint(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\"}}\n\n")
				return
			}
			fmt.Fprint(w, goodStream)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	})
	c := newClient(t, s.URL)
	bare, ours := reflect.TypeFor[*openai.Client](), reflect.TypeFor[*client.Client]()
	require.Greater(t, bare.NumMethod(), 80)
	for i := range bare.NumMethod() {
		want := bare.Method(i)
		t.Run(want.Name, func(t *testing.T) {
			got, ok := ours.MethodByName(want.Name)
			require.True(t, ok)
			require.Equal(t, signature(want), signature(got))

			var args []reflect.Value
			for j := 1; j < got.Type.NumIn(); j++ {
				in := got.Type.In(j)
				arg := reflect.Zero(in)
				switch value, ok := special[in]; {
				case got.Type.IsVariadic() && j == got.Type.NumIn()-1:
					continue
				case ok:
					arg = reflect.ValueOf(value)
				case in == reflect.TypeFor[context.Context]():
					arg = reflect.ValueOf(t.Context())
				case in.Kind() == reflect.String:
					arg = reflect.ValueOf("id").Convert(in)
				}
				args = append(args, arg)
			}
			before := len(s.requests())
			results := reflect.ValueOf(c).MethodByName(want.Name).Call(args)
			seen := s.requests()[before:]
			require.NotEmpty(t, seen, "%v", results)
			require.Contains(t, seen[0], " /v1/")
			if stream, ok := results[0].Interface().(io.Closer); ok {
				require.Nil(t, results[1].Interface())
				stream.Close()
			}
		})
	}
	for _, e := range c.Stats().Endpoints {
		require.Zero(t, e.InFlight)
	}
}

func signature(m reflect.Method) string {
	var b strings.Builder
	for i := 1; i < m.Type.NumIn(); i++ {
		fmt.Fprint(&b, m.Type.In(i), ",")
	}
	for i := range m.Type.NumOut() {
		fmt.Fprint(&b, "→", m.Type.Out(i))
	}
	return b.String()
}

// outcome is what a program sees of a call.
type outcome struct {
	Answer   openai.ChatCompletionResponse
	Text     string
	APIError *openai.APIError
	Status   int    // of an error response
	Body     string // of one that is not an OpenAI error object
	Ended    string // how a stream ended
}

func (o *outcome) note(err error) {
	var request *openai.RequestError
	if errors.As(err, &o.APIError) {
		o.Status = o.APIError.HTTPStatusCode
	}
	if errors.As(err, &request) {
		o.Status, o.Body = request.HTTPStatusCode, string(request.Body)
	}
}

// program is the same for both clients.
func program(ctx context.Context, c interface {
	CreateChatCompletion(context.Context, openai.ChatCompletionRequest) (openai.ChatCompletionResponse, error)
	CreateChatCompletionStream(context.Context, openai.ChatCompletionRequest) (*openai.ChatCompletionStream, error)
}, stream bool) (o outcome) {
	request := openai.ChatCompletionRequest{Model: "m", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "<hello>"}}}
	if !stream {
		answer, err := c.CreateChatCompletion(ctx, request)
		answer.SetHeader(nil)
		o.Answer = answer
		o.note(err)
		return o
	}
	s, err := c.CreateChatCompletionStream(ctx, request)
	if err != nil {
		o.note(err)
		return o
	}
	defer s.Close()
	for {
		chunk, err := s.Recv()
		if err != nil {
			var typed *client.Error
			switch {
			case errors.As(err, &typed):
				o.Ended = "error"
				errors.As(err, &o.APIError)
			case err == io.EOF:
				o.Ended = "EOF"
			default:
				o.Ended = err.Error()
			}
			return o
		}
		o.Text += chunk.Choices[0].Delta.Content
	}
}

// The same program gets the same from both clients, except where a stream
// fails: there the bare client reports a clean end.
func TestSameResultsAsTheBareClient(t *testing.T) {
	const engineError = `{"error":{"message":"it says why","type":"T","param":null,"code":%d}}`
	const good = `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`
	tests := []struct {
		name    string
		stream  bool
		status  int
		body    string
		differs bool
	}{
		{"success", false, 200, good, false},
		{"bad request", false, 400, engineError, false},
		{"unauthorized", false, 401, `{"error":"Unauthorized"}`, false},
		{"not found", false, 404, engineError, false},
		{"too many", false, 429, engineError, false},
		{"engine error", false, 500, engineError, false},
		{"busy", false, 503, engineError, false},
		{"not an error object", false, 502, `<html>bad gateway</html>`, false},
		{"stream", true, 200, goodStream, false},
		{"refused stream", true, 503, engineError, false},
		{"stream without its end mark", true, 200, strings.TrimSuffix(goodStream, "data: [DONE]\n\n"), true},
		{"aborted stream", true, 200, strings.Replace(goodStream, `"stop"`, `"abort"`, 1), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := tt.body
			if strings.Contains(body, "%d") {
				body = fmt.Sprintf(body, tt.status)
			}
			s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[tt.stream && tt.status == 200])
				w.WriteHeader(tt.status)
				fmt.Fprint(w, body)
			})
			config := openai.DefaultConfig("secret")
			config.BaseURL = s.URL + "/v1"
			bare := program(t.Context(), openai.NewClientWithConfig(config), tt.stream)
			ours := program(t.Context(), newClient(t, s.URL), tt.stream)
			if !tt.differs {
				require.Equal(t, bare, ours)
				if tt.status >= 400 {
					require.Equal(t, tt.status, ours.Status)
				}
				return
			}
			require.Equal(t, "EOF", bare.Ended)
			require.Equal(t, "error", ours.Ended)
			require.Equal(t, bare.Text, ours.Text)
		})
	}
}

// A stream that is cut: io.ErrUnexpectedEOF or a clean end with the bare
// client, an *Error with the endpoint and the bytes delivered with ours.
func TestCutStreamIsTyped(t *testing.T) {
	chunk := strings.SplitAfter(strings.Replace(goodStream, `"stop"`, `null`, 1), "\n\n")[0]
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, chunk)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler) // closes the connection in the middle
	})
	c := newClient(t, s.URL)
	stream, err := c.CreateChatCompletionStream(t.Context(), openai.ChatCompletionRequest{Model: "m", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "x"}}})
	require.NoError(t, err)
	defer stream.Close()
	_, err = stream.Recv()
	require.NoError(t, err)
	_, err = stream.Recv()
	var typed *client.Error
	require.ErrorAs(t, err, &typed)
	require.EqualValues(t, len(chunk), typed.Delivered)
	require.Equal(t, s.URL, typed.Endpoint)
	require.NotErrorIs(t, err, io.EOF)
}

// A plain call that gets a stream, as behind a gateway that always streams, is told
// so; the bare client complains about JSON.
func TestStreamNobodyAskedFor(t *testing.T) {
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, goodStream)
	})
	c := newClient(t, s.URL)
	request := openai.ChatCompletionRequest{Model: "m", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "x"}}}
	_, err := c.CreateChatCompletion(t.Context(), request)
	var typed *client.Error
	require.ErrorAs(t, err, &typed)
	require.ErrorIs(t, err, middleware.ErrStreamed)
	require.Equal(t, s.URL, typed.Endpoint)
	require.Zero(t, c.Stats().Endpoints[0].Failed)

	stream, err := c.CreateChatCompletionStream(t.Context(), request)
	require.NoError(t, err, "who asks for a stream gets it")
	require.NoError(t, stream.Close())
}

// An error event in a stream is an *openai.APIError with both clients.
func TestErrorEventIsAnAPIError(t *testing.T) {
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, strings.SplitAfter(goodStream, "\n\n")[0]+"data: {\"error\":{\"message\":\"boom\",\"type\":\"T\",\"code\":500}}\n\ndata: [DONE]\n\n")
	})
	config := openai.DefaultConfig("secret")
	config.BaseURL = s.URL + "/v1"
	for name, o := range map[string]outcome{
		"bare": program(t.Context(), openai.NewClientWithConfig(config), true),
		"ours": program(t.Context(), newClient(t, s.URL), true),
	} {
		if name == "ours" {
			require.NotNil(t, o.APIError, name)
			require.Equal(t, "boom", o.APIError.Message)
		}
		require.Equal(t, "hello", o.Text, name)
	}
}

// The bytes on the wire are canonical: go-openai's escapes are gone.
func TestBytesOnTheWire(t *testing.T) {
	var got []byte
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	})
	program(t.Context(), newClient(t, s.URL), false)
	require.Equal(t, `{"model":"m","messages":[{"content":"<hello>","role":"user"}],"stream":false}`, string(got))
	t.Setenv("PREFIXWISE_DISABLED", "1")
	program(t.Context(), newClient(t, s.URL), false)
	require.Contains(t, string(got), `\u003chello\u003e`, "the kill switch leaves the bytes alone")
	require.True(t, json.Valid(got))
}
