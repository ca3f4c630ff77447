// Go-openai shows the drop-in client: one line is new, every method and type is
// go-openai's own.
//
//	c, err := client.New(client.WithEndpoints("http://10.0.0.1:8000", "http://10.0.0.2:8000"))
//	// was: c := openai.NewClient(key)
//
//	go run ./examples/go-openai
//	go run ./examples/go-openai -endpoints http://10.0.0.1:8000,http://10.0.0.2:8000
//
// Eight conversations run at once, every other one streamed, on a simulated
// fleet unless -endpoints or PREFIXWISE_ENDPOINTS names one; see package
// examples/internal/chats.
package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/examples/internal/chats"
)

func main() { chats.Main("go-openai", connect) }

// connect is where a program hands over the client. c is the Prefixwise client:
// client.New returns it, as in the first lines of this file, and chats.Main calls
// that for the fleet on the command line. What takes an *openai.Client gets the
// one inside.
func connect(c *client.Client, model string) (chats.Ask, error) {
	sdk := c.Client // an *openai.Client
	return program{sdk, model}.ask, nil
}

type program struct {
	sdk   *openai.Client
	model string
}

func (p program) ask(ctx context.Context, chat chats.Chat, piece func(string) error) (string, error) {
	if piece != nil {
		return p.stream(ctx, p.request(chat), piece)
	}
	resp, err := p.sdk.CreateChatCompletion(ctx, p.request(chat))
	if err != nil {
		return "", err
	}
	if len(resp.Choices) == 0 {
		return "", errors.New("an answer without a choice")
	}
	return resp.Choices[0].Message.Content, nil
}

func (p program) stream(ctx context.Context, request openai.ChatCompletionRequest, piece func(string) error) (string, error) {
	stream, err := p.sdk.CreateChatCompletionStream(ctx, request)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	var text strings.Builder
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return text.String(), nil
		}
		if err != nil {
			return "", err
		}
		for _, choice := range chunk.Choices {
			if choice.Delta.Content == "" {
				continue
			}
			text.WriteString(choice.Delta.Content)
			if err := piece(choice.Delta.Content); err != nil {
				return "", err
			}
		}
	}
}

func (p program) request(chat chats.Chat) openai.ChatCompletionRequest {
	r := openai.ChatCompletionRequest{
		Model:               p.model,
		MaxCompletionTokens: chats.MaxTokens,
		Messages:            []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleSystem, Content: chat.System}},
	}
	for _, turn := range chat.Turns {
		role := openai.ChatMessageRoleUser
		if turn.Assistant {
			role = openai.ChatMessageRoleAssistant
		}
		r.Messages = append(r.Messages, openai.ChatCompletionMessage{Role: role, Content: turn.Text})
	}
	for _, t := range chat.Tools {
		r.Tools = append(r.Tools, openai.Tool{Type: openai.ToolTypeFunction,
			Function: &openai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: t.Parameters}})
	}
	return r
}
