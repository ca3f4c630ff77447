package client

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// What a session adds to a call, with a transcript of 200 messages and 200 KB.
func BenchmarkSession(b *testing.B) {
	canonicalizer, err := canon.New(canon.Options{ReasoningName: "reasoning"})
	require.NoError(b, err)
	c := &Client{sessions: newSessions(SessionOptions{}), canon: canonicalizer}
	s := c.Session("")
	for i := range 100 {
		call := openai.ToolCall{ID: fmt.Sprint("call-", i), Type: openai.ToolTypeFunction,
			Function: openai.FunctionCall{Name: "read", Arguments: fmt.Sprintf(`{"path": "%d.go"}`, i)}}
		require.NoError(b, s.Append(openai.ChatCompletionMessage{Role: "assistant", ToolCalls: []openai.ToolCall{call}}))
		require.NoError(b, s.Result(call.ID, strings.Repeat("some <text> of a file, ", 87)))
	}
	whole := s.Messages()
	for name, req := range map[string]openai.ChatCompletionRequest{
		"appended": {Model: "m"},
		"whole":    {Model: "m", Messages: whole}, // as frameworks call it
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t, err := s.begin(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				s.abandon(t)
			}
		})
	}
}
