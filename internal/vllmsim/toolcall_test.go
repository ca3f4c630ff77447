package vllmsim

import (
	"encoding/json"
	"errors"
	"io"
	"testing"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

func withTool(choice any) openai.ChatCompletionRequest {
	req := user("find it")
	req.MaxCompletionTokens = 100
	req.ToolChoice = choice
	req.Tools = []openai.Tool{{Type: "function", Function: &openai.FunctionDefinition{Name: "find", Parameters: json.RawMessage(
		`{"type":"object","properties":{"q":{"type":"string"},"n":{"type":"integer"},"kind":{"enum":["a","b"]},"deep":{"type":"object","properties":{"x":{"type":"boolean"}}}}}`)}}}
	return req
}

func checkArguments(t *testing.T, arguments string) {
	var a struct {
		Q    *string
		N    *int
		Kind string
		Deep struct{ X *bool }
	}
	require.NoError(t, json.Unmarshal([]byte(arguments), &a), arguments)
	require.NotNil(t, a.Q)
	require.NotNil(t, a.N)
	require.Contains(t, []string{"a", "b"}, a.Kind)
	require.NotNil(t, a.Deep.X)
}

func TestForcedToolCalls(t *testing.T) {
	f := start(t, Config{})
	named := openai.ToolChoice{Type: "function", Function: openai.ToolFunction{Name: "find"}}
	for _, choice := range []any{"required", named} {
		r, err := f.CreateChatCompletion(t.Context(), withTool(choice))
		require.NoError(t, err)
		require.Equal(t, openai.FinishReasonToolCalls, r.Choices[0].FinishReason)
		calls := r.Choices[0].Message.ToolCalls
		require.Len(t, calls, 1)
		require.Equal(t, "find", calls[0].Function.Name)
		require.NotEmpty(t, calls[0].ID)
		checkArguments(t, calls[0].Function.Arguments)
		require.Equal(t, len(Tokenize(calls[0].Function.Arguments)), r.Usage.CompletionTokens)

		s, err := f.CreateChatCompletionStream(t.Context(), withTool(choice))
		require.NoError(t, err)
		var name, id, arguments string
		var finish openai.FinishReason
		for {
			c, err := s.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Empty(t, c.Choices[0].Delta.Content)
			for _, call := range c.Choices[0].Delta.ToolCalls {
				require.Zero(t, *call.Index)
				name, id, arguments = name+call.Function.Name, id+call.ID, arguments+call.Function.Arguments
			}
			finish = c.Choices[0].FinishReason
		}
		s.Close()
		require.Equal(t, calls[0].Function, openai.FunctionCall{Name: name, Arguments: arguments})
		require.Equal(t, calls[0].ID, id)
		require.Equal(t, openai.FinishReasonToolCalls, finish)
	}
	for _, choice := range []any{nil, "auto", "none"} {
		r, err := f.CreateChatCompletion(t.Context(), withTool(choice))
		require.NoError(t, err)
		require.Empty(t, r.Choices[0].Message.ToolCalls)
		require.NotEmpty(t, r.Choices[0].Message.Content)
	}
	_, err := f.CreateChatCompletion(t.Context(), withTool(openai.ToolChoice{Type: "function", Function: openai.ToolFunction{Name: "other"}}))
	require.ErrorContains(t, err, "400")
	cut := withTool("required")
	cut.MaxCompletionTokens = 3
	r, err := f.CreateChatCompletion(t.Context(), cut)
	require.NoError(t, err)
	require.Equal(t, openai.FinishReasonLength, r.Choices[0].FinishReason)
	require.Equal(t, 3, r.Usage.CompletionTokens)
}
