// Openai-go shows the official SDK, openai-go v3, behind prefix routing: it
// takes the client's *http.Client and base URL, and everything else is as
// before.
//
//	cd examples/openai-go && go run .
//
// Eight conversations of four turns each, every other one streamed, run against
// three simulated engines; with PREFIXWISE_ENDPOINTS set they run on those
// instances. It is a module of its own, so that Prefixwise does not depend on
// the SDK.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "openai-go:", err)
		os.Exit(1)
	}
}

const (
	conversations = 8
	instances     = 3
)

var questions = []string{
	"What does a prefix cache keep, and for how long?",
	"Why does a prompt that begins like an earlier one start to answer sooner?",
	"What would change if the two prompts differed in their first word?",
	"Put that in one sentence for somebody in a hurry.",
}

func run(ctx context.Context, out io.Writer) error {
	kind, connect := "instances of PREFIXWISE_ENDPOINTS", client.FromEnv
	if os.Getenv("PREFIXWISE_ENDPOINTS") == "" {
		fleet := fleettest.New(instances, fleettest.Config{TimeScale: 20})
		defer fleet.Close()
		kind = "SIMULATED engines"
		connect = func(options ...client.Option) (*client.Client, error) {
			return client.New(append(options, client.WithEndpoints(fleet.URLs()...))...)
		}
	}
	c, err := connect()
	if err != nil {
		return err
	}
	defer c.Close()

	// This is all that there is to it.
	sdk := openai.NewClient(
		option.WithBaseURL(c.BaseURL()),
		option.WithHTTPClient(c.HTTPClient()),
		option.WithAPIKey(cmp.Or(os.Getenv("OPENAI_API_KEY"), "none")),
	)

	models, err := sdk.Models.List(ctx)
	if err != nil {
		return err
	}
	if len(models.Data) == 0 {
		return errors.New("the fleet serves no model")
	}
	var u tokens
	for i := range conversations {
		if err := converse(ctx, sdk, models.Data[0].ID, i, &u); err != nil {
			return fmt.Errorf("conversation %d: %w", i, err)
		}
	}
	fmt.Fprintf(out, "%d requests to %d %s, hit rate %.1f %%\n",
		conversations*len(questions), len(c.Stats().Endpoints), kind, 100*float64(u.cached)/float64(max(u.prompt, 1)))
	return nil
}

// tokens adds up what the engines say.
type tokens struct{ prompt, cached int64 }

func (t *tokens) add(u openai.CompletionUsage) {
	t.prompt += u.PromptTokens
	t.cached += u.PromptTokensDetails.CachedTokens
}

// converse has one conversation. Each turn repeats those before it.
func converse(ctx context.Context, sdk openai.Client, model string, number int, u *tokens) error {
	params := openai.ChatCompletionNewParams{
		Model:     model,
		MaxTokens: openai.Int(60),
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(fmt.Sprintf("You explain inference engines to reader number %d. Be brief, be exact, and say when you do not know.", number)),
		},
	}
	for _, question := range questions {
		params.Messages = append(params.Messages, openai.UserMessage(question))
		ask := plain
		if number%2 == 1 {
			ask = streamed
		}
		answer, err := ask(ctx, sdk, params, u)
		if err != nil {
			return err
		}
		params.Messages = append(params.Messages, openai.AssistantMessage(answer))
	}
	return nil
}

func plain(ctx context.Context, sdk openai.Client, params openai.ChatCompletionNewParams, u *tokens) (string, error) {
	completion, err := sdk.Chat.Completions.New(ctx, params)
	if err != nil {
		return "", err
	}
	if len(completion.Choices) == 0 {
		return "", errors.New("an answer without a choice")
	}
	u.add(completion.Usage)
	return completion.Choices[0].Message.Content, nil
}

func streamed(ctx context.Context, sdk openai.Client, params openai.ChatCompletionNewParams, u *tokens) (string, error) {
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := sdk.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	var text strings.Builder
	for stream.Next() {
		chunk := stream.Current()
		for _, choice := range chunk.Choices {
			text.WriteString(choice.Delta.Content)
		}
		u.add(chunk.Usage) // zero but in the last one
	}
	return text.String(), stream.Err()
}
