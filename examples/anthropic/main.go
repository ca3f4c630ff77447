// Anthropic shows anthropic-sdk-go behind prefix routing, on the /v1/messages
// that vLLM serves beside OpenAI's paths: the SDK takes the client's
// *http.Client and base URL, and everything else is as before.
//
//	c, err := client.New(client.WithEndpoints("http://10.0.0.1:8000", "http://10.0.0.2:8000"))
//	sdk := anthropic.NewClient(option.WithBaseURL(c.BaseURL()), option.WithHTTPClient(c.HTTPClient()), …)
//
//	go run -C examples/anthropic .
//	go run -C examples/anthropic . -endpoints http://10.0.0.1:8000,http://10.0.0.2:8000
//
// Eight conversations run at once, every other one streamed, on a simulated
// fleet unless -endpoints or PREFIXWISE_ENDPOINTS names one; see package
// examples/internal/chats. It is a module of its own, so that Prefixwise does
// not depend on the SDK.
//
// The SDK takes a key from ANTHROPIC_API_KEY when it is given none. That one is
// not meant for your fleet, so give it one, or client.WithAPIKey, which replaces
// whatever the SDK sends.
package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/examples/internal/chats"
)

func main() { chats.Main("anthropic-sdk-go", connect) }

// connect makes the SDK's client. c is the Prefixwise client: client.New returns
// it, as in the first lines of this file, and chats.Main calls that for the fleet
// on the command line. In your program both lines stand side by side.
func connect(c *client.Client, model string) (chats.Ask, error) {
	sdk := anthropic.NewClient(
		option.WithBaseURL(c.BaseURL()),       // these three lines
		option.WithHTTPClient(c.HTTPClient()), // are all
		option.WithMaxRetries(0),              // that changes: Prefixwise has tried the other instances
		option.WithAPIKey("none"),             // or the fleet's key; client.WithAPIKey replaces it
	)
	return program{sdk, model}.ask, nil
}

type program struct {
	sdk   anthropic.Client
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
	message, err := p.sdk.Messages.New(ctx, params)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, block := range message.Content {
		text.WriteString(block.Text)
	}
	return text.String(), nil
}

func (p program) stream(ctx context.Context, params anthropic.MessageNewParams, piece func(string) error) (string, error) {
	stream := p.sdk.Messages.NewStreaming(ctx, params)
	defer stream.Close()
	var text strings.Builder
	for stream.Next() {
		event, ok := stream.Current().AsAny().(anthropic.ContentBlockDeltaEvent)
		if !ok || event.Delta.Text == "" {
			continue
		}
		text.WriteString(event.Delta.Text)
		if err := piece(event.Delta.Text); err != nil {
			return "", err
		}
	}
	return text.String(), stream.Err()
}

func (p program) params(chat chats.Chat) (anthropic.MessageNewParams, error) {
	params := anthropic.MessageNewParams{
		Model:     p.model,
		MaxTokens: chats.MaxTokens,
		System:    []anthropic.TextBlockParam{{Text: chat.System}},
	}
	for _, turn := range chat.Turns {
		text := anthropic.NewTextBlock(turn.Text)
		if turn.Assistant {
			params.Messages = append(params.Messages, anthropic.NewAssistantMessage(text))
		} else {
			params.Messages = append(params.Messages, anthropic.NewUserMessage(text))
		}
	}
	for _, t := range chat.Tools {
		var schema anthropic.ToolInputSchemaParam
		if err := json.Unmarshal(t.Parameters, &schema); err != nil {
			return params, err
		}
		params.Tools = append(params.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: t.Name, Description: anthropic.String(t.Description), InputSchema: schema}})
	}
	return params, nil
}
