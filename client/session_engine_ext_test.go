package client_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
)

// scripted is an engine that notes what it is sent and answers what it is told,
// one answer after the other.
type scripted struct {
	url     string
	mu      sync.Mutex
	bodies  [][]byte
	answers []http.HandlerFunc
}

func newScripted(t testing.TB) *scripted {
	e := new(scripted)
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	e.url = server.URL
	return e
}

func (e *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	e.bodies = append(e.bodies, body)
	answer := plain(`{"role":"assistant","content":"ok"}`)
	if len(e.answers) > 0 {
		answer, e.answers = e.answers[0], e.answers[1:]
	}
	e.mu.Unlock()
	answer(w, r)
}

func (e *scripted) then(answers ...http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers = append(e.answers, answers...)
}

func (e *scripted) requests() [][]byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([][]byte(nil), e.bodies...)
}

// lastMessages returns the messages of the last request, each as it was
// received.
func (e *scripted) lastMessages(t require.TestingT) []json.RawMessage {
	all := e.requests()
	require.NotEmpty(t, all)
	var body struct{ Messages []json.RawMessage }
	require.NoError(t, json.Unmarshal(all[len(all)-1], &body))
	return body.Messages
}

// plain answers with a message, spelled as it is given.
func plain(message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":%s,"logprobs":null,"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":100,"completion_tokens":1,"total_tokens":101}}`, message)
	}
}

// streamed answers with a stream of deltas, spelled as they are given. Without a
// finish the connection is cut after the last one.
func streamed(finish string, deltas ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, d := range deltas {
			end := "null"
			if finish != "" && i == len(deltas)-1 {
				end = `"` + finish + `"`
			}
			fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", d, end)
			w.(http.Flusher).Flush()
		}
		if finish == "" {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "data: [DONE]\n\n")
	}
}

// calling is a message that calls a function, once for each id.
func calling(ids ...string) string {
	calls := make([]string, len(ids))
	for i, id := range ids {
		calls[i] = fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"find","arguments":"{\"n\": %d}"}}`, id, i)
	}
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + `]}`
}

func user(text string) openai.ChatCompletionMessage {
	return openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: text}
}

func system(text string) openai.ChatCompletionMessage {
	return openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem, Content: text}
}

var anyModel = openai.ChatCompletionRequest{Model: "m"}

// drain reads a stream to its end and returns what it ended with.
func drain(st *client.SessionStream) error {
	for {
		if _, err := st.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// promptOf is a request up to the end of its last message.
func promptOf(t require.TestingT, body []byte) []byte {
	var r struct{ Messages json.RawMessage }
	require.NoError(t, json.Unmarshal(body, &r))
	i := bytes.Index(body, r.Messages)
	require.Positive(t, i)
	return body[:i+len(r.Messages)-1]
}
