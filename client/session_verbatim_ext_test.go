package client_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
)

// The message of an answer, as vLLM writes it and with what go-openai loses.
const (
	weird = `{"role":"assistant","content":"a<b é \u00e9 \ud83d\ude00 \/","refusal":null,"annotations":null,"audio":null,"function_call":null,` +
		`"tool_calls":[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"a\" : 1.0, \"b\":12345678901234567890,\n\"c\":\"\\u003c\"}"},"extra":{"sig":1.50}}],` +
		`"reasoning":"so <be> it","reasoning_details":[{"type":"t","n":1.0}]}`
	weirdSent = `{"role":"assistant","content":"a<b é \u00e9 \ud83d\ude00 \/",` +
		`"tool_calls":[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"a\" : 1.0, \"b\":12345678901234567890,\n\"c\":\"\\u003c\"}"},"extra":{"sig":1.50}}],` +
		`"reasoning":"so <be> it","reasoning_details":[{"type":"t","n":1.0}]}`
)

// With canonicalization off the bytes of an answer are sent back as they came,
// but for the members that requests do not have.
func TestSessionSendsTheEnginesBytes(t *testing.T) {
	t.Setenv("PREFIXWISE_DISABLED", "1")
	engine := newScripted(t)
	engine.then(plain(weird))
	s := newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go")))
	resp, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.Equal(t, "so <be> it", resp.Choices[0].Message.ReasoningContent)
	require.Equal(t, "so <be> it", s.Messages()[1].ReasoningContent)
	require.NoError(t, s.Result("c1", "found"))
	_, err = s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.Equal(t, weirdSent, string(engine.lastMessages(t)[1]))
}

// vLLM's reasoning comes back to it under its own name, once, from a plain
// answer and from a stream, also from an engine that says reasoning_content.
func TestSessionReasoning(t *testing.T) {
	for name, answer := range map[string]string{
		"new":  `{"role":"assistant","content":"42","reasoning":"hm"}`,
		"old":  `{"role":"assistant","content":"42","reasoning_content":"hm"}`,
		"both": `{"role":"assistant","content":"42","reasoning_content":"hm","reasoning":"hm"}`,
	} {
		t.Run(name, func(t *testing.T) {
			engine := newScripted(t)
			engine.then(plain(answer), streamed("stop", answer))
			s := newClient(t, engine.url).Session("")
			require.NoError(t, s.Append(user("go")))
			_, err := s.Complete(t.Context(), anyModel)
			require.NoError(t, err)
			require.NoError(t, s.Append(user("again")))
			st, err := s.Stream(t.Context(), anyModel)
			require.NoError(t, err)
			chunk, err := st.Recv()
			require.NoError(t, err)
			require.Equal(t, "hm", chunk.Choices[0].Delta.ReasoningContent)
			require.NoError(t, drain(st))
			require.Equal(t, "hm", st.Message().ReasoningContent)
			require.NoError(t, st.Close())
			require.NoError(t, s.Append(user("more")))
			_, err = s.Complete(t.Context(), anyModel)
			require.NoError(t, err)
			sent := engine.lastMessages(t)
			for _, i := range []int{1, 3} {
				require.JSONEq(t, `{"role":"assistant","content":"42","reasoning":"hm"}`, string(sent[i]))
			}
		})
	}
}

// A stream leaves the message that a plain answer would have left.
func TestSessionStream(t *testing.T) {
	t.Setenv("PREFIXWISE_DISABLED", "1")
	engine := newScripted(t)
	engine.then(streamed("tool_calls",
		`{"role":"assistant","content":""}`,
		`{"reasoning":"so \ud83d"}`, `{"reasoning":"\ude00 <"}`,
		`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"find","arguments":""}}]}`,
		`{"tool_calls":[{"index":0,"id":"other","function":{"arguments":"{\"a\" :"}},{"index":1,"id":"c2","type":"function","function":{"name":"list"}}]}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":" 1.0}"}}]}`,
		`{"content":null,"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`, `{}`))
	s := newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go")))
	st, err := s.Stream(t.Context(), anyModel)
	require.NoError(t, err)
	require.NotEmpty(t, st.Header().Get("X-Prefixwise-Endpoint"))
	_, err = s.Complete(t.Context(), anyModel)
	require.ErrorIs(t, err, client.ErrSessionBusy)
	require.NoError(t, drain(st))
	_, err = st.Recv()
	require.Equal(t, io.EOF, err)
	require.NoError(t, st.Close())
	require.Len(t, st.Message().ToolCalls, 2)
	require.Equal(t, "so 😀 <", st.Message().ReasoningContent)
	require.NoError(t, s.Result("c2", "2"))
	require.NoError(t, s.Result("c1", "1"))
	_, err = s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.Equal(t, `{"role":"assistant","content":null,"reasoning":"so \ud83d\ude00 <","tool_calls":[`+
		`{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"a\" : 1.0}"}},`+
		`{"id":"c2","type":"function","function":{"name":"list","arguments":"{}"}}]}`, string(engine.lastMessages(t)[1]))
	require.JSONEq(t, `{"role":"tool","content":"1","tool_call_id":"c1"}`, string(engine.lastMessages(t)[2]))
}

// A stream that does not come to its end leaves the transcript as it was, and
// the session can go on.
func TestSessionStreamThatBreaks(t *testing.T) {
	const hello = `{"role":"assistant","content":"hello"}`
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"choices":[{"index":0,"delta":`+hello+`,"finish_reason":null}]}`+"\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		read   func(t *testing.T, st *client.SessionStream, cancel func()) error
	}{
		"cut": {streamed("", hello, `{"content":" you"}`), func(t *testing.T, st *client.SessionStream, _ func()) error {
			err := drain(st)
			var e *client.Error
			require.ErrorAs(t, err, &e)
			require.NoError(t, st.Close())
			return err
		}},
		"closed early": {streamed("stop", hello, `{"content":" you"}`), func(t *testing.T, st *client.SessionStream, _ func()) error {
			_, err := st.Recv()
			require.NoError(t, err)
			return st.Close()
		}},
		"context ended": {endless, func(t *testing.T, st *client.SessionStream, cancel func()) error {
			_, err := st.Recv()
			require.NoError(t, err)
			cancel()
			err = drain(st)
			st.Close()
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			engine := newScripted(t)
			engine.then(tt.answer)
			s := newClient(t, engine.url, client.WithRetries(0)).Session("")
			require.NoError(t, s.Append(user("go")))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			st, err := s.Stream(ctx, anyModel)
			require.NoError(t, err)
			err = tt.read(t, st, cancel)
			require.ErrorIs(t, err, client.ErrNotAppended)
			require.ErrorContains(t, err, "not in the transcript")
			require.Empty(t, st.Message())
			require.Len(t, s.Messages(), 1)
			_, err = s.Complete(t.Context(), anyModel)
			require.NoError(t, err)
			require.Len(t, s.Messages(), 2)
		})
	}
}

// A stream that its reader forgets holds the session until its context ends.
func TestSessionForgottenStream(t *testing.T) {
	engine := newScripted(t)
	engine.then(streamed("stop", `{"role":"assistant","content":"hello"}`))
	s := newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go")))
	ctx, cancel := context.WithCancel(t.Context())
	st, err := s.Stream(ctx, anyModel)
	require.NoError(t, err)
	require.ErrorIs(t, s.Append(user("and")), client.ErrSessionBusy)
	cancel()
	require.Eventually(t, func() bool { return s.Append(user("and")) == nil }, 10*time.Second, time.Millisecond)
	st.Close()
}

// Other choices of a request's head reach the engine beside the messages.
func TestSessionRequestMembers(t *testing.T) {
	engine := newScripted(t)
	s := newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go")))
	ctx := client.WithExtraBody(t.Context(), map[string]any{"priority": 3, "messages": "overridden"})
	_, err := s.Complete(ctx, openai.ChatCompletionRequest{Model: "m", MaxCompletionTokens: 7, Tools: []openai.Tool{{Type: "function", Function: &openai.FunctionDefinition{Name: "f"}}}})
	require.NoError(t, err)
	require.JSONEq(t, `{"model":"m","max_completion_tokens":7,"priority":3,"messages":[{"role":"user","content":"go"}],"stream":false,
		"tools":[{"type":"function","function":{"name":"f"}}]}`, string(engine.requests()[0]))
}
