// Package chats is the traffic of the examples for the SDKs: passengers who ask
// a ferry company's help desk one thing after the other. Each program says only
// how its SDK sends such a chat; see [Ask].
package chats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sashabaranov/go-openai"
	"golang.org/x/sync/errgroup"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/examples/internal/trial"
)

const (
	conversations = 8
	turns         = 6 // of each

	// MaxTokens is how long an answer may be.
	MaxTokens = 60
)

// Requests is how many requests [Run] makes, half of them streamed.
const Requests = conversations * turns

// Sample is the first request of a conversation.
func Sample() Chat {
	return Chat{System: system, Turns: []Turn{{Text: newAuthor(0).question()}}, Tools: shuffled(tools)}
}

// A Chat is one request: everything that was said so far.
type Chat struct {
	System string
	Turns  []Turn // the user's first, then by turns
	Tools  []Tool
}

// A Turn is what one side says.
type Turn struct {
	Assistant bool
	Text      string
}

// A Tool is something that the model can call. Parameters is a JSON Schema.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage
}

// Ask sends a chat with an SDK and returns the answer. When piece is not nil
// the answer is to be streamed, and piece gets each part of its text; an error
// of piece's ends the stream and is returned.
type Ask func(ctx context.Context, chat Chat, piece func(text string) error) (answer string, err error)

// Connect makes an SDK's client for the fleet and the model that it serves.
type Connect func(c *client.Client, model string) (Ask, error)

// Main is the main function of an SDK's example.
func Main(name string, connect Connect) {
	trial.Main(name, func(ctx context.Context, endpoints string, out io.Writer) error {
		result, err := Run(ctx, name, endpoints, connect)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, result)
		return result.Check()
	})
}

// Run has all conversations at once, every other one streamed.
func Run(ctx context.Context, name, endpoints string, connect Connect, options ...client.Option) (trial.Result, error) {
	return trial.Run(ctx, name, endpoints, func(ctx context.Context, t *trial.Trial) error {
		ask, err := connect(t.Client, t.Model)
		if err != nil {
			return err
		}
		var streamed, pieces atomic.Int64
		g, ctx := errgroup.WithContext(ctx)
		for i := range conversations {
			g.Go(func() error {
				ask := ask
				if i%2 == 1 {
					ask = streaming(ask, &streamed, &pieces)
				}
				if err := converse(ctx, t, ask, i); err != nil {
					return fmt.Errorf("conversation %d: %w", i, err)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if pieces.Load() < 2*streamed.Load() {
			return fmt.Errorf("%d answers were streamed in %d pieces", streamed.Load(), pieces.Load())
		}
		return nil
	}, options...)
}

// streaming makes ask stream, and checks that the pieces are the answer.
func streaming(ask Ask, streamed, pieces *atomic.Int64) Ask {
	return func(ctx context.Context, chat Chat, _ func(string) error) (string, error) {
		var text strings.Builder
		answer, err := ask(ctx, chat, func(piece string) error {
			pieces.Add(1)
			text.WriteString(piece)
			return nil
		})
		if err == nil && text.String() != answer {
			err = fmt.Errorf("of an answer of %d bytes, %d were streamed", len(answer), text.Len())
		}
		streamed.Add(1)
		return answer, err
	}
}

// converse has one conversation. Each request repeats all that was said before.
func converse(ctx context.Context, t *trial.Trial, ask Ask, number int) error {
	a := newAuthor(number)
	chat := Chat{System: system}
	for range turns {
		chat.Turns = append(chat.Turns, Turn{Text: a.question()})
		chat.Tools = shuffled(tools)
		t.Sending(request(chat))
		answer, err := ask(ctx, chat, nil)
		if err != nil {
			return err
		}
		if answer == "" {
			return errors.New("an answer without text")
		}
		chat.Turns = append(chat.Turns, Turn{Assistant: true, Text: answer})
	}
	return nil
}

// shuffled returns the tools in a random order, as a program has them that keeps
// its tools in a map. Only canonicalization makes the prompts begin alike then.
func shuffled(tools []Tool) []Tool {
	tools = slices.Clone(tools)
	rand.Shuffle(len(tools), func(i, j int) { tools[i], tools[j] = tools[j], tools[i] })
	return tools
}

// request is the chat in go-openai's types, the tools always in one order.
func request(chat Chat) openai.ChatCompletionRequest {
	r := openai.ChatCompletionRequest{Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleSystem, Content: chat.System}}}
	for _, turn := range chat.Turns {
		role := openai.ChatMessageRoleUser
		if turn.Assistant {
			role = openai.ChatMessageRoleAssistant
		}
		r.Messages = append(r.Messages, openai.ChatCompletionMessage{Role: role, Content: turn.Text})
	}
	for _, t := range tools {
		r.Tools = append(r.Tools, openai.Tool{Type: openai.ToolTypeFunction,
			Function: &openai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: t.Parameters}})
	}
	return r
}
