package client_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/client"
)

// watched is a client that notes the warnings about rewritten history, and logs.
func watched(t *testing.T, engine *scripted) (c *client.Client, warnings *[]client.Rewrite, log *bytes.Buffer) {
	warnings, log = new([]client.Rewrite), new(bytes.Buffer)
	c = newClient(t, engine.url, client.WithLogger(slog.New(slog.NewTextHandler(log, nil))),
		client.WithSessions(client.SessionOptions{OnRewrite: func(r client.Rewrite) { *warnings = append(*warnings, r) }}))
	return c, warnings, log
}

func tool(name string) openai.Tool {
	return openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{Name: name, Description: "what " + name + " does"}}
}

// answered is a session of which an engine has seen four messages and has
// answered a fifth; it has 100 tokens to each request.
func answered(t *testing.T, c *client.Client, engine *scripted) *client.Session {
	t.Helper()
	engine.then(plain(`{"role":"assistant","content":"first answer","reasoning":"secret thoughts"}`), plain(`{"role":"assistant","content":"second answer"}`))
	s := c.Session("id-4711")
	require.NoError(t, s.Append(system("you are kind"), user("first secret question")))
	req := openai.ChatCompletionRequest{Model: "m", Tools: []openai.Tool{tool("one"), tool("two")}}
	_, err := s.Complete(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, s.Append(user("second question")))
	_, err = s.Complete(t.Context(), req)
	require.NoError(t, err)
	return s
}

func TestSessionRewrites(t *testing.T) {
	req := openai.ChatCompletionRequest{Model: "m", Tools: []openai.Tool{tool("one"), tool("two")}}
	with := func(change func(r *openai.ChatCompletionRequest)) openai.ChatCompletionRequest {
		r := req
		change(&r)
		return r
	}
	type messages = []openai.ChatCompletionMessage
	for name, tt := range map[string]struct {
		req     openai.ChatCompletionRequest
		rewrite func(m messages) messages
		change  canon.Change // canon.Same: no warning
		message int
	}{
		"goes on":             {req: req},
		"tools in disorder":   {req: with(func(r *openai.ChatCompletionRequest) { r.Tools = []openai.Tool{tool("two"), tool("one")} })},
		"sampling":            {req: with(func(r *openai.ChatCompletionRequest) { r.Temperature = 1 })},
		"tool choice":         {req: with(func(r *openai.ChatCompletionRequest) { r.ToolChoice = "required" })},
		"reasoning forgotten": {req: req, rewrite: func(m messages) messages { m[2].ReasoningContent = ""; return m }},
		"one part for a text": {req: req, rewrite: func(m messages) messages {
			m[1].MultiContent, m[1].Content = []openai.ChatMessagePart{{Type: "text", Text: m[1].Content}}, ""
			return m
		}},
		"last ones dropped": {req: req, rewrite: func(m messages) messages { return m[:4] }},
		"another tool": {req: with(func(r *openai.ChatCompletionRequest) { r.Tools = append(r.Tools[:2:2], tool("three")) }),
			change: canon.ToolSet, message: -1},
		"another model": {req: with(func(r *openai.ChatCompletionRequest) { r.Model = "other" }), change: canon.ModelChange, message: -1},
		"system text": {req: req, rewrite: func(m messages) messages { m[0].Content = "you are cruel"; return m },
			change: canon.SystemText, message: 0},
		"first question": {req: req, rewrite: func(m messages) messages { m[1].Content = "another secret"; return m },
			change: canon.OtherRoot, message: 1},
		"an answer": {req: req, rewrite: func(m messages) messages { m[2].Content = "something else"; return m },
			change: canon.Rewritten, message: 2},
		"other reasoning": {req: req, rewrite: func(m messages) messages { m[2].ReasoningContent = "other thoughts"; return m },
			change: canon.ReasoningOther, message: 2},
		"a turn cut out": {req: req, rewrite: func(m messages) messages { return append(m[:1:1], m[3:]...) },
			change: canon.OtherRoot, message: 1},
	} {
		t.Run(name, func(t *testing.T) {
			engine := newScripted(t)
			c, warnings, log := watched(t, engine)
			s := answered(t, c, engine)
			require.Empty(t, *warnings)
			r := tt.req
			if tt.rewrite != nil {
				r.Messages = append(tt.rewrite(s.Messages()), user("third question"))
			} else {
				require.NoError(t, s.Append(user("third question")))
			}
			_, err := s.Complete(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, "ok", s.Messages()[len(s.Messages())-1].Content, "it is served all the same")
			if tt.change == canon.Same {
				require.Empty(t, *warnings)
				require.NotContains(t, log.String(), "level=WARN")
				return
			}
			require.Len(t, *warnings, 1)
			w := (*warnings)[0]
			require.Equal(t, "id-4711", w.Session)
			require.Equal(t, tt.change.String(), w.Verdict.Change.String())
			require.Equal(t, tt.message, w.Verdict.Message)
			require.Positive(t, w.LostBytes)
			require.Positive(t, w.LostTokens)
			require.Less(t, w.LostTokens, 100)
			require.Contains(t, log.String(), "change="+tt.change.String())
			for _, text := range []string{"secret", "cruel", "question", "4711", "something", "thoughts"} {
				require.NotContains(t, log.String(), text)
			}
			// One warning for one change.
			require.NoError(t, s.Append(user("fourth question")))
			_, err = s.Complete(t.Context(), tt.req)
			require.NoError(t, err)
			require.Len(t, *warnings, 1)
		})
	}
}

// The tokens lost are estimated by what the engine has counted.
func TestSessionLostTokens(t *testing.T) {
	engine := newScripted(t)
	c, warnings, _ := watched(t, engine)
	s := c.Session("")
	require.NoError(t, s.Append(system(strings.Repeat("a", 900)), user("go")))
	_, err := s.Complete(t.Context(), anyModel) // 100 tokens for some 1,000 bytes
	require.NoError(t, err)
	m := s.Messages()
	m[0].Content = "b" + m[0].Content[1:]
	require.NoError(t, s.Use(append(m, user("on"))))
	_, err = s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.Len(t, *warnings, 1)
	require.InDelta(t, 92, (*warnings)[0].LostTokens, 8)
}

// An answer whose place has changed is still the engine's own.
func TestSessionUseRestoresAnswers(t *testing.T) {
	engine := newScripted(t)
	engine.then(plain(weird))
	s := newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go")))
	_, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.NoError(t, s.Result("c1", "found"))
	m := s.Messages()
	m[1].ReasoningContent = ""
	m[1].ToolCalls[0].Function.Arguments = `{"a":1,"b":12345678901234567000,"c":"<"}`
	require.NoError(t, s.Use(append([]openai.ChatCompletionMessage{system("new"), user("summary")}, m[1:]...)))
	_, err = s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	canonical, err := canon.Canonicalize(canon.Chat, []byte(`{"messages":[`+weirdSent+`]}`))
	require.NoError(t, err)
	require.Equal(t, string(canonical.Body), `{"messages":[`+string(engine.lastMessages(t)[2])+`]}`)

	var e *client.ToolResultError
	require.ErrorAs(t, s.Use(m[2:]), &e, "a result without its call")
	require.Len(t, s.Messages(), 5)
}
