package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/middleware"
)

func TestSessionLoop(t *testing.T) {
	engine := newScripted(t)
	engine.then(plain(calling("a")), plain(`{"role":"assistant","content":"done"}`))
	s := newClient(t, engine.url).Session("one")
	require.Equal(t, "one", s.ID())
	require.NoError(t, s.Append(system("be brief"), user("find it")))
	resp, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.Len(t, resp.Choices[0].Message.ToolCalls, 1)
	require.NotEmpty(t, resp.Header().Get("X-Prefixwise-Endpoint"))
	require.NoError(t, s.Result("a", "found"))
	resp, err = s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.Equal(t, "done", resp.Choices[0].Message.Content)

	roles := ""
	for _, m := range s.Messages() {
		roles += m.Role + " "
	}
	require.Equal(t, "system user assistant tool assistant ", roles)
	require.Equal(t, `{"n": 0}`, s.Messages()[2].ToolCalls[0].Function.Arguments)
	require.Len(t, engine.lastMessages(t), 4)
}

// Results stand in the order of the calls, whoever is ready first.
func TestSessionParallelResults(t *testing.T) {
	engine := newScripted(t)
	ids := []string{"a", "b", "c", "d", "e", "f"}
	engine.then(plain(calling(ids...)))
	s := newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go")))
	_, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for _, id := range slices.Backward(ids) {
		wg.Go(func() {
			require.NoError(t, s.Result(id, "result of "+id))
			s.Messages() // at any time
		})
	}
	wg.Wait()
	var got []string
	for _, m := range s.Messages()[2:] {
		got = append(got, m.ToolCallID)
		require.Equal(t, "result of "+m.ToolCallID, m.Content)
	}
	require.Equal(t, ids, got)
}

func TestSessionToolResultErrors(t *testing.T) {
	engine := newScripted(t)
	engine.then(plain(calling("a", "b", "c")))
	s := newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go")))
	_, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.NoError(t, s.Result("b", "2"))

	wrong := func(err error, problem client.ToolResultProblem, ids, open []string) {
		t.Helper()
		var e *client.ToolResultError
		require.ErrorAs(t, err, &e)
		require.Equal(t, client.ToolResultError{Problem: problem, IDs: ids, Open: open}, *e)
		for _, id := range ids {
			require.Contains(t, err.Error(), `"`+id+`"`)
		}
	}
	rest := []string{"a", "c"}
	wrong(s.Result("b", "again"), client.ToolResultDoubled, []string{"b"}, rest)
	wrong(s.Result("z", "?"), client.ToolResultUnknown, []string{"z"}, rest)
	wrong(s.Result("", "?"), client.ToolResultUnknown, []string{""}, rest)
	wrong(s.Append(user("never mind")), client.ToolResultMissing, rest, rest)
	_, err = s.Complete(t.Context(), anyModel)
	wrong(err, client.ToolResultMissing, rest, rest)
	_, err = s.Stream(t.Context(), anyModel)
	wrong(err, client.ToolResultMissing, rest, rest)
	_, err = s.Compact(0)
	wrong(err, client.ToolResultMissing, rest, rest)

	// All or none: the good one is not taken with the bad one.
	tool := func(id string) openai.ChatCompletionMessage {
		return openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: id, Content: "x"}
	}
	wrong(s.Append(tool("a"), tool("z")), client.ToolResultUnknown, []string{"z"}, []string{"c"})
	require.Len(t, s.Messages(), 2)
	require.NoError(t, s.Append(tool("a"), tool("c"), user("go on")))
	require.Len(t, s.Messages(), 6)
	wrong(s.Append(tool("q")), client.ToolResultUnknown, []string{"q"}, nil)

	s = newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go"), openai.ChatCompletionMessage{Role: "assistant", ToolCalls: []openai.ToolCall{{ID: "k", Type: "function"}}}, tool("k")))
	wrong(s.Append(tool("k")), client.ToolResultDoubled, []string{"k"}, nil)
}

// An engine that gives two calls one id gets their results in the order in which
// they came.
func TestSessionEqualIDs(t *testing.T) {
	engine := newScripted(t)
	engine.then(plain(calling("a", "a")))
	s := newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go")))
	_, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.NoError(t, s.Result("a", "1"))
	require.NoError(t, s.Result("a", "2"))
	require.Error(t, s.Result("a", "3"))
	require.Equal(t, "1", s.Messages()[2].Content)
	require.Equal(t, "2", s.Messages()[3].Content)
}

func TestSessionOverlap(t *testing.T) {
	engine := newScripted(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	engine.then(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		plain(`{"role":"assistant","content":"late"}`)(w, r)
	})
	c := newClient(t, engine.url)
	s := c.Session("")
	require.NoError(t, s.Append(user("go")))
	done := make(chan error)
	go func() {
		_, err := s.Complete(t.Context(), anyModel)
		done <- err
	}()
	<-arrived
	_, err := s.Complete(t.Context(), anyModel)
	require.ErrorIs(t, err, client.ErrSessionBusy)
	_, err = s.Stream(t.Context(), anyModel)
	require.ErrorIs(t, err, client.ErrSessionBusy)
	require.ErrorIs(t, s.Append(user("and")), client.ErrSessionBusy)
	require.ErrorIs(t, s.Use(s.Messages()), client.ErrSessionBusy)
	_, err = s.Compact(0)
	require.ErrorIs(t, err, client.ErrSessionBusy)
	require.Len(t, s.Fork("").Messages(), 1)
	close(release)
	require.NoError(t, <-done)
	require.NoError(t, s.Append(user("and")))
	require.Len(t, s.Messages(), 3)
}

func TestSessionRefusals(t *testing.T) {
	engine := newScripted(t)
	s := newClient(t, engine.url).Session("")
	_, err := s.Complete(t.Context(), anyModel)
	require.ErrorIs(t, err, client.ErrNoMessages)
	require.Error(t, s.Append(openai.ChatCompletionMessage{Content: "who says so?"}))
	require.ErrorIs(t, s.Append(openai.ChatCompletionMessage{Role: "user", Content: "a", MultiContent: []openai.ChatMessagePart{{Type: "text", Text: "b"}}}), openai.ErrContentFieldsMisused)
	require.Empty(t, s.Messages())
	require.NoError(t, s.Append(user("go")))
	_, err = s.Complete(t.Context(), openai.ChatCompletionRequest{Model: "m", N: 2})
	require.ErrorIs(t, err, client.ErrSeveralChoices)
	require.Empty(t, engine.requests())
}

// The engine's errors are those of the bare client, and the session goes on.
func TestSessionFailure(t *testing.T) {
	engine := newScripted(t)
	engine.then(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		w.Write([]byte(`{"error":{"message":"no","type":"BadRequestError","code":400}}`))
	})
	s := newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go")))
	_, err := s.Complete(t.Context(), anyModel)
	var api *openai.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, http.StatusBadRequest, api.HTTPStatusCode)
	require.Len(t, s.Messages(), 1)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Complete(ctx, anyModel)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.Len(t, s.Messages(), 2)
}

// A call with Messages that fails leaves the transcript as it was, its open
// batch too, and one that succeeds does not.
func TestSessionFailureWithMessages(t *testing.T) {
	engine := newScripted(t)
	s := newClient(t, engine.url).Session("")
	engine.then(plain(calling("a")))
	require.NoError(t, s.Append(user("go")))
	_, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	before, err := json.Marshal(s)
	require.NoError(t, err)
	unchanged := func() {
		t.Helper()
		after, err := json.Marshal(s)
		require.NoError(t, err)
		require.JSONEq(t, string(before), string(after))
	}

	whole := anyModel
	whole.Messages = append(s.Messages(), openai.ChatCompletionMessage{Role: "tool", ToolCallID: "a", Content: "1"}, user("on"))
	rewritten := anyModel
	rewritten.Messages = []openai.ChatCompletionMessage{user("something else")}
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		w.Write([]byte(`{"error":{"message":"no","type":"BadRequestError","code":400}}`))
	}
	for _, req := range []openai.ChatCompletionRequest{whole, rewritten} {
		engine.then(refuse, streamed("", `{"role":"assistant","content":"hal"}`))
		_, err = s.Complete(t.Context(), req)
		require.Error(t, err)
		unchanged()
		st, err := s.Stream(t.Context(), req)
		require.NoError(t, err)
		require.ErrorIs(t, drain(st), client.ErrNotAppended)
		unchanged()
	}
	_, err = s.Complete(t.Context(), whole)
	require.NoError(t, err)
	require.Equal(t, whole.Messages[2:], s.Messages()[2:4])
	require.Len(t, s.Messages(), 5)
}

// A panic on the call's way, of a hook of the caller, does not lock the session.
func TestSessionPanic(t *testing.T) {
	engine := newScripted(t)
	c := newClient(t, engine.url, client.WithSessions(client.SessionOptions{OnRewrite: func(client.Rewrite) { panic("hook") }}))
	s := c.Session("")
	require.NoError(t, s.Append(user("go")))
	bad := client.WithTrace(t.Context(), &client.Trace{Picked: func(middleware.Picked) { panic("hook") }})
	require.Panics(t, func() { s.Complete(bad, anyModel) })
	require.Panics(t, func() { s.Stream(bad, anyModel) })
	_, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)

	require.NoError(t, s.Use([]openai.ChatCompletionMessage{user("stop")}))
	require.Panics(t, func() { s.Complete(t.Context(), anyModel) })
	require.Panics(t, func() { s.Stream(t.Context(), anyModel) })
	require.NoError(t, s.Append(user("at once")))
}

// An answer that no later request could have in it is returned, not appended.
func TestSessionUnusableAnswer(t *testing.T) {
	cut := strings.Replace(calling("a"), `{\"n\": 0}`, `{\"n\": `, 1)
	cutStream := streamed("length", `{"role":"assistant","content":""}`,
		`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"find","arguments":"{\"n\": "}}]}`)
	engine := newScripted(t)
	engine.then(plain(cut), cutStream, plain(`{"role":"assistant","content":"fine"}`))
	s := newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go")))
	resp, err := s.Complete(t.Context(), anyModel)
	require.ErrorIs(t, err, client.ErrNotAppended)
	require.ErrorContains(t, err, `"a"`)
	require.Len(t, resp.Choices, 1)
	st, err := s.Stream(t.Context(), anyModel)
	require.NoError(t, err)
	require.ErrorIs(t, drain(st), client.ErrNotAppended)
	require.ErrorIs(t, drain(st), client.ErrNotAppended, "again")
	require.NoError(t, st.Close())
	require.Len(t, s.Messages(), 1)
	_, err = s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.Len(t, s.Messages(), 2)

	engine.then(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"choices":[]}`))
	})
	_, err = s.Complete(t.Context(), anyModel)
	require.ErrorIs(t, err, client.ErrNotAppended)
	require.False(t, errors.Is(err, client.ErrSessionBusy))
}
