// Eino shows cloudwego/eino, by way of eino-ext's model for OpenAI, behind
// prefix routing: it takes the client's *http.Client and base URL, and
// everything else is as before.
//
//	c, err := client.New(client.WithEndpoints("http://10.0.0.1:8000", "http://10.0.0.2:8000"))
//	m, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{BaseURL: c.BaseURL(), HTTPClient: c.HTTPClient(), …})
//
//	go run -C examples/eino .
//	go run -C examples/eino . -endpoints http://10.0.0.1:8000,http://10.0.0.2:8000
//
// Eight conversations run at once, every other one streamed, on a simulated
// fleet unless -endpoints or PREFIXWISE_ENDPOINTS names one; see package
// examples/internal/chats. It is a module of its own, so that Prefixwise does
// not depend on the SDK.
//
// The sonic that eino-ext asks for does not compile with Go 1.26; go.mod has a
// later one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/examples/internal/chats"
)

func main() { chats.Main("eino", connect) }

// connect makes the SDK's client. c is the Prefixwise client: client.New returns
// it, as in the first lines of this file, and chats.Main calls that for the fleet
// on the command line. In your program both lines stand side by side.
func connect(c *client.Client, name string) (chats.Ask, error) {
	m, err := openai.NewChatModel(context.Background(), &openai.ChatModelConfig{
		BaseURL:             c.BaseURL(),    // these two lines
		HTTPClient:          c.HTTPClient(), // are all that changes
		APIKey:              "none",         // or the fleet's key; client.WithAPIKey replaces it
		Model:               name,
		MaxCompletionTokens: new(chats.MaxTokens),
	})
	return program{m}.ask, err
}

type program struct{ model model.ToolCallingChatModel }

func (p program) ask(ctx context.Context, chat chats.Chat, piece func(string) error) (string, error) {
	tools, err := tools(chat)
	if err != nil {
		return "", err
	}
	m, err := p.model.WithTools(tools)
	if err != nil {
		return "", err
	}
	if piece != nil {
		return stream(ctx, m, messages(chat), piece)
	}
	answer, err := m.Generate(ctx, messages(chat))
	if err != nil {
		return "", err
	}
	return answer.Content, nil
}

func stream(ctx context.Context, m model.ToolCallingChatModel, messages []*schema.Message, piece func(string) error) (string, error) {
	answer, err := m.Stream(ctx, messages)
	if err != nil {
		return "", err
	}
	defer answer.Close()
	var text strings.Builder
	for {
		part, err := answer.Recv()
		if errors.Is(err, io.EOF) {
			return text.String(), nil
		}
		if err != nil {
			return "", err
		}
		if part.Content == "" {
			continue // the usage, which comes last
		}
		text.WriteString(part.Content)
		if err := piece(part.Content); err != nil {
			return "", err
		}
	}
}

func messages(chat chats.Chat) []*schema.Message {
	all := []*schema.Message{schema.SystemMessage(chat.System)}
	for _, turn := range chat.Turns {
		if turn.Assistant {
			all = append(all, schema.AssistantMessage(turn.Text, nil))
		} else {
			all = append(all, schema.UserMessage(turn.Text))
		}
	}
	return all
}

func tools(chat chats.Chat) (all []*schema.ToolInfo, err error) {
	for _, t := range chat.Tools {
		// A schema of its own for each request: eino sorts what is "required" in
		// the one that it is given, which concurrent requests must not share.
		parameters := new(jsonschema.Schema)
		if err := json.Unmarshal(t.Parameters, parameters); err != nil {
			return nil, err
		}
		all = append(all, &schema.ToolInfo{Name: t.Name, Desc: t.Description, ParamsOneOf: schema.NewParamsOneOfByJSONSchema(parameters)})
	}
	return all, nil
}
