// Langchaingo shows tmc/langchaingo behind prefix routing: it takes the client's
// *http.Client and base URL, and everything else is as before.
//
//	c, err := client.New(client.WithEndpoints("http://10.0.0.1:8000", "http://10.0.0.2:8000"))
//	llm, err := openai.New(openai.WithBaseURL(c.BaseURL()), openai.WithHTTPClient(c.HTTPClient()), …)
//
//	go run -C examples/langchaingo .
//	go run -C examples/langchaingo . -endpoints http://10.0.0.1:8000,http://10.0.0.2:8000
//
// Eight conversations run at once, every other one streamed, on a simulated
// fleet unless -endpoints or PREFIXWISE_ENDPOINTS names one; see package
// examples/internal/chats. It is a module of its own, so that Prefixwise does
// not depend on the SDK.
//
// Langchaingo replaces what went wrong on the way to an engine by "network
// error: failed to reach API server", and has no error type for what an engine
// refuses. A client.WithLogger tells more.
package main

import (
	"context"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/examples/internal/chats"
)

func main() { chats.Main("langchaingo", connect) }

// connect makes the SDK's client. c is the Prefixwise client: client.New returns
// it, as in the first lines of this file, and chats.Main calls that for the fleet
// on the command line. In your program both lines stand side by side.
func connect(c *client.Client, model string) (chats.Ask, error) {
	llm, err := openai.New(
		openai.WithBaseURL(c.BaseURL()),       // these two lines
		openai.WithHTTPClient(c.HTTPClient()), // are all that changes
		openai.WithToken("none"),              // or the fleet's key; client.WithAPIKey replaces it
		openai.WithModel(model),
	)
	return program{llm}.ask, err
}

type program struct{ llm llms.Model }

func (p program) ask(ctx context.Context, chat chats.Chat, piece func(string) error) (string, error) {
	options := []llms.CallOption{llms.WithMaxTokens(chats.MaxTokens), llms.WithTools(tools(chat))}
	if piece != nil {
		options = append(options, llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
			if len(chunk) == 0 { // the role, which comes first
				return nil
			}
			return piece(string(chunk))
		}))
	}
	resp, err := p.llm.GenerateContent(ctx, messages(chat), options...)
	if err != nil {
		return "", err
	}
	return resp.Choices[0].Content, nil
}

func messages(chat chats.Chat) []llms.MessageContent {
	all := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeSystem, chat.System)}
	for _, turn := range chat.Turns {
		role := llms.ChatMessageTypeHuman
		if turn.Assistant {
			role = llms.ChatMessageTypeAI
		}
		all = append(all, llms.TextParts(role, turn.Text))
	}
	return all
}

func tools(chat chats.Chat) (all []llms.Tool) {
	for _, t := range chat.Tools {
		all = append(all, llms.Tool{Type: "function",
			Function: &llms.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: t.Parameters}})
	}
	return all
}
