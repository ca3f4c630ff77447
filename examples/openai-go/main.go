// Openai-go shows the official SDK, openai-go v3, behind prefix routing: it
// takes the client's *http.Client and base URL, and everything else is as
// before.
//
//	c, err := client.New(client.WithEndpoints("http://10.0.0.1:8000", "http://10.0.0.2:8000"))
//	sdk := openai.NewClient(option.WithBaseURL(c.BaseURL()), option.WithHTTPClient(c.HTTPClient()), …)
//
//	go run -C examples/openai-go .
//	go run -C examples/openai-go . -endpoints http://10.0.0.1:8000,http://10.0.0.2:8000
//
// Eight conversations run at once, every other one streamed, on a simulated
// fleet unless -endpoints or PREFIXWISE_ENDPOINTS names one; see package
// examples/internal/chats. It is a module of its own, so that Prefixwise does
// not depend on the SDK.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/examples/internal/chats"
)

func main() { chats.Main("openai-go", connect) }

// connect makes the SDK's client. c is the Prefixwise client: client.New returns
// it, as in the first lines of this file, and chats.Main calls that for the fleet
// on the command line. In your program both lines stand side by side.
func connect(c *client.Client, model string) (chats.Ask, error) {
	sdk := openai.NewClient(
		option.WithBaseURL(c.BaseURL()),       // these three lines
		option.WithHTTPClient(c.HTTPClient()), // are all
		option.WithMaxRetries(0),              // that changes: Prefixwise has tried the other instances
		option.WithAPIKey("none"),             // or the fleet's key; client.WithAPIKey replaces it
	)
	return program{sdk, model}.ask, nil
}

type program struct {
	sdk   openai.Client
	model string
}

func (p program) ask(ctx context.Context, chat chats.Chat, piece func(string) error) (string, error) {
	params, err := p.params(chat)
	if err != nil {
		return "", err
	}
	if piece != nil {
		return p.stream(ctx, params, piece)
	}
	completion, err := p.sdk.Chat.Completions.New(ctx, params)
	if err != nil {
		return "", err
	}
	if len(completion.Choices) == 0 {
		return "", errors.New("an answer without a choice")
	}
	return completion.Choices[0].Message.Content, nil
}

func (p program) stream(ctx context.Context, params openai.ChatCompletionNewParams, piece func(string) error) (string, error) {
	stream := p.sdk.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	var text strings.Builder
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			if choice.Delta.Content == "" {
				continue
			}
			text.WriteString(choice.Delta.Content)
			if err := piece(choice.Delta.Content); err != nil {
				return "", err
			}
		}
	}
	return text.String(), stream.Err()
}

func (p program) params(chat chats.Chat) (openai.ChatCompletionNewParams, error) {
	params := openai.ChatCompletionNewParams{
		Model:     p.model,
		MaxTokens: openai.Int(chats.MaxTokens),
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(chat.System)},
	}
	for _, turn := range chat.Turns {
		message := openai.UserMessage(turn.Text)
		if turn.Assistant {
			message = openai.AssistantMessage(turn.Text)
		}
		params.Messages = append(params.Messages, message)
	}
	for _, t := range chat.Tools {
		var parameters shared.FunctionParameters
		if err := json.Unmarshal(t.Parameters, &parameters); err != nil {
			return params, err
		}
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: openai.String(t.Description), Parameters: parameters}))
	}
	return params, nil
}
