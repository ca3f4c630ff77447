// Genkit shows Genkit's plugin for OpenAI-compatible services behind prefix
// routing: it takes the client's *http.Client and base URL, and everything else
// is as before.
//
//	c, err := client.New(client.WithEndpoints("http://10.0.0.1:8000", "http://10.0.0.2:8000"))
//	plugin := &compat_oai.OpenAICompatible{BaseURL: c.BaseURL(), Opts: []option.RequestOption{option.WithHTTPClient(c.HTTPClient())}, …}
//
//	go run -C examples/genkit .
//	go run -C examples/genkit . -endpoints http://10.0.0.1:8000,http://10.0.0.2:8000
//
// Eight conversations run at once, every other one streamed, on a simulated
// fleet unless -endpoints or PREFIXWISE_ENDPOINTS names one; see package
// examples/internal/chats. It is a module of its own, so that Prefixwise does
// not depend on the SDK.
//
// The plugin is made of openai-go's first major version, which its options come
// from. In streams it does not ask for usage; Prefixwise does, and keeps what
// comes of it to itself, so client.Client.Stats has the hit rate all the same.
package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
	"github.com/firebase/genkit/go/plugins/compat_oai"
	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/examples/internal/chats"
)

func main() { chats.Main("genkit", connect) }

// connect makes the SDK's client. c is the Prefixwise client: client.New returns
// it, as in the first lines of this file, and chats.Main calls that for the fleet
// on the command line. In your program both lines stand side by side.
func connect(c *client.Client, model string) (chats.Ask, error) {
	g := genkit.Init(context.Background(), genkit.WithPlugins(&compat_oai.OpenAICompatible{
		// These two lines are all that changes. Prefixwise has tried the other
		// instances, so the SDK need not.
		BaseURL: c.BaseURL(),
		Opts:    []option.RequestOption{option.WithHTTPClient(c.HTTPClient()), option.WithMaxRetries(0)},

		APIKey:   "none", // or the fleet's key; client.WithAPIKey replaces it
		Provider: "fleet",
	}))
	p := program{genkit: g, model: "fleet/" + model}
	return p.ask, p.define(chats.Sample().Tools)
}

type program struct {
	genkit *genkit.Genkit
	model  string
}

// define makes the tools known to Genkit, which sends those that it knows.
func (p program) define(tools []chats.Tool) error {
	for _, t := range tools {
		var schema map[string]any
		if err := json.Unmarshal(t.Parameters, &schema); err != nil {
			return err
		}
		genkit.DefineTool(p.genkit, t.Name, t.Description, func(*ai.ToolContext, any) (string, error) {
			return "", errors.New("the help desk is closed")
		}, ai.WithInputSchema(schema))
	}
	return nil
}

func (p program) ask(ctx context.Context, chat chats.Chat, piece func(string) error) (string, error) {
	options := []ai.GenerateOption{
		ai.WithModelName(p.model),
		ai.WithSystem(chat.System),
		ai.WithMessages(messages(chat)...),
		ai.WithTools(tools(chat)...),
		ai.WithConfig(&openai.ChatCompletionNewParams{MaxTokens: openai.Int(chats.MaxTokens)}),
	}
	if piece != nil {
		options = append(options, ai.WithStreaming(func(_ context.Context, chunk *ai.ModelResponseChunk) error {
			return piece(chunk.Text())
		}))
	}
	resp, err := genkit.Generate(ctx, p.genkit, options...)
	if err != nil {
		return "", err
	}
	return resp.Text(), nil
}

func messages(chat chats.Chat) (all []*ai.Message) {
	for _, turn := range chat.Turns {
		if turn.Assistant {
			all = append(all, ai.NewModelTextMessage(turn.Text))
		} else {
			all = append(all, ai.NewUserTextMessage(turn.Text))
		}
	}
	return all
}

func tools(chat chats.Chat) (all []ai.ToolRef) {
	for _, t := range chat.Tools {
		all = append(all, ai.ToolName(t.Name))
	}
	return all
}
