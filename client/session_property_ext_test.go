package client_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prefixwise/prefixwise/canon"
)

// modelTurn is an answer of a made-up model.
type modelTurn struct {
	content, reasoning string
	arguments          []string
	streamed           bool
}

var (
	texts = rapid.StringOfN(rapid.SampledFrom([]rune("ab <>&\"\\/\n\té\u2028😀{}")), 0, 12, -1)
	// What a model writes for arguments, with spaces, escapes and numbers that
	// decoding and encoding again would not leave as they are.
	spaces = rapid.SampledFrom([]string{"", " ", "  ", "\n"})
	values = rapid.SampledFrom([]string{"1.0", "-0", "1e2", "1E+2", "12345678901234567890", "9007199254740993", `"\u003c"`, `"<"`, `"\/é"`, `"\ud83d\ude00"`, `"😀"`, "null", "[ ]", `{"z":1,"a":2}`})
)

var modelTurns = rapid.Custom(func(t *rapid.T) modelTurn {
	m := modelTurn{content: texts.Draw(t, "content"), reasoning: texts.Draw(t, "reasoning"), streamed: rapid.Bool().Draw(t, "streamed")}
	for range rapid.IntRange(0, 4).Draw(t, "calls") {
		space := spaces.Draw(t, "space")
		m.arguments = append(m.arguments, "{"+space+`"b"`+space+":"+space+values.Draw(t, "value")+","+space+`"a":`+values.Draw(t, "value")+space+"}")
	}
	return m
})

// spelled writes a text in JSON, in pieces that may be cut apart: each character
// as it is, or as an escape, in one of the two ways.
func spelled(t *rapid.T, text string) []string {
	var pieces []string
	for _, r := range text {
		how := rapid.IntRange(0, 2).Draw(t, "spelling")
		switch {
		case how == 0 && r >= ' ' && r != '"' && r != '\\':
			pieces = append(pieces, string(r))
		case how == 1 && r == '/':
			pieces = append(pieces, `\/`)
		default:
			form := `\u%04x`
			if how == 1 {
				form = `\u%04X`
			}
			for _, unit := range utf16.Encode([]rune{r}) {
				pieces = append(pieces, fmt.Sprintf(form, unit))
			}
		}
	}
	return pieces
}

// answer is the turn as an engine would send it, and its message with the ids
// of its calls.
func (m modelTurn) answer(t *rapid.T, turn int) (http.HandlerFunc, []string) {
	var ids []string
	content, reasoning := spelled(t, m.content), spelled(t, m.reasoning)
	var arguments [][]string
	for i, a := range m.arguments {
		ids = append(ids, fmt.Sprintf("call-%d-%d", turn, i))
		arguments = append(arguments, spelled(t, a))
	}
	call := func(i int, index, text string) string {
		return fmt.Sprintf(`{%s"id":"%s","type":"function","function":{"name":"f%d", "arguments":"%s"}}`, index, ids[i], i, text)
	}
	if !m.streamed {
		var calls []string
		for i := range ids {
			calls = append(calls, call(i, "", strings.Join(arguments[i], "")))
		}
		return plain(fmt.Sprintf(`{"role":"assistant", "content":"%s","refusal":null,"tool_calls":[%s],"reasoning":"%s"}`,
			strings.Join(content, ""), strings.Join(calls, ","), strings.Join(reasoning, ""))), ids
	}
	deltas := []string{`{"role":"assistant","content":""}`}
	cut := func(pieces []string, form string) {
		for len(pieces) > 0 {
			n := rapid.IntRange(1, len(pieces)).Draw(t, "cut")
			deltas = append(deltas, fmt.Sprintf(form, strings.Join(pieces[:n], "")))
			pieces = pieces[n:]
		}
	}
	cut(reasoning, `{"reasoning":"%s"}`)
	cut(content, `{"content":"%s"}`)
	finish := "stop"
	for i := range ids {
		finish = "tool_calls"
		deltas = append(deltas, `{"tool_calls":[`+call(i, fmt.Sprintf(`"index":%d,`, i), "")+`]}`)
		cut(arguments[i], `{"tool_calls":[{"index":`+strconv.Itoa(i)+`,"function":{"arguments":"%s"}}]}`)
	}
	return streamed(finish, append(deltas, `{}`)...), ids
}

// received is what an engine is sent of a message.
type received struct {
	Role, Content, Reasoning string
	ReasoningContent         *string `json:"reasoning_content"`
	ToolCallID               string  `json:"tool_call_id"`
	ToolCalls                []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// Whatever an agent does, each request's bytes are those of the one before and
// more, and the engine gets its own answers back as it gave them.
func TestSessionProperty(t *testing.T) {
	engine := newScripted(t)
	c := newClient(t, engine.url)
	rapid.Check(t, func(t *rapid.T) {
		first := len(engine.requests())
		s := c.Session("")
		require.NoError(t, s.Append(system(texts.Draw(t, "system")), user(texts.Draw(t, "user"))))
		turns := rapid.SliceOfN(modelTurns, 1, 5).Draw(t, "turns")
		at := map[int]modelTurn{} // where their messages are
		results := map[string]string{}
		for i, m := range append(turns, modelTurn{}) {
			answer, ids := m.answer(t, i)
			engine.then(answer)
			at[len(s.Messages())] = m
			if rapid.Bool().Draw(t, "framework") {
				// It keeps the conversation as go-openai decodes it.
				require.NoError(t, s.Use(lossy(t, s.Messages())))
			}
			if m.streamed {
				st, err := s.Stream(t.Context(), anyModel)
				require.NoError(t, err)
				require.NoError(t, drain(st))
				require.NoError(t, st.Close())
			} else {
				_, err := s.Complete(t.Context(), anyModel)
				require.NoError(t, err)
			}
			var wg sync.WaitGroup
			for _, id := range rapid.Permutation(ids).Draw(t, "order") {
				results[id] = "result of " + id
				wg.Go(func() {
					if err := s.Result(id, "result of "+id); err != nil {
						t.Errorf("%v", err)
					}
				})
			}
			wg.Wait()
			if len(ids) == 0 {
				require.NoError(t, s.Append(user(texts.Draw(t, "next"))))
			}
		}

		bodies := engine.requests()[first:]
		for i, body := range bodies {
			again, err := canon.Canonicalize(canon.Chat, body)
			require.NoError(t, err)
			require.Equal(t, string(body), string(again.Body), "canonical bytes are sent")
			if i > 0 {
				before := promptOf(t, bodies[i-1])
				require.True(t, bytes.HasPrefix(body, before), "%s\ndoes not begin with\n%s", body, before)
			}
		}
		var last struct{ Messages []received }
		require.NoError(t, json.Unmarshal(bodies[len(bodies)-1], &last))
		for i, got := range last.Messages {
			if got.Role == "tool" {
				require.Equal(t, results[got.ToolCallID], got.Content)
			}
			if got.Role != "assistant" {
				continue
			}
			want := at[i]
			require.Equal(t, want.content, got.Content)
			require.Equal(t, want.reasoning, got.Reasoning)
			require.Nil(t, got.ReasoningContent)
			require.Len(t, got.ToolCalls, len(want.arguments))
			for k, call := range got.ToolCalls {
				require.Equal(t, want.arguments[k], call.Function.Arguments)
				require.Equal(t, call.ID, last.Messages[i+1+k].ToolCallID, "results stand in the order of the calls")
			}
		}
	})
}

// lossy is a conversation as a framework hands it back: reasoning dropped,
// arguments decoded and encoded again.
func lossy(t *rapid.T, messages []openai.ChatCompletionMessage) []openai.ChatCompletionMessage {
	for i := range messages {
		if rapid.Bool().Draw(t, "drop reasoning") {
			messages[i].ReasoningContent = ""
		}
		for k := range messages[i].ToolCalls {
			f := &messages[i].ToolCalls[k].Function
			var v any
			require.NoError(t, json.Unmarshal([]byte(f.Arguments), &v))
			again, err := json.Marshal(v)
			require.NoError(t, err)
			f.Arguments = string(again)
		}
	}
	return messages
}
