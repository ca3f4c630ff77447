package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sashabaranov/go-openai"
)

// maxSteps ends an agent that goes round in circles.
const maxSteps = 20

// customer is somebody whom an agent serves.
type customer struct {
	says   []string            // one message after the other, each when the one before is dealt with
	script [][]openai.ToolCall // what the agent calls in each of its answers; nil: the model decides
}

// serve is the loop of a tool-calling agent. Every request repeats everything
// before it, so nearly all of each prompt has been computed before, on the
// instance where the session lives.
func (c customer) serve(ctx context.Context, t *teller) error {
	messages := []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleSystem, Content: policy}}
	step := 0
	for _, text := range c.says {
		messages = append(messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: text})
		for {
			if step++; step > maxSteps {
				return fmt.Errorf("the agent is not done after %d steps", maxSteps)
			}
			answer, err := t.ask(ctx, openai.ChatCompletionRequest{Messages: messages, Tools: tools, MaxTokens: 300})
			if err != nil {
				return err
			}
			if c.script != nil {
				answer.ToolCalls = c.script[step-1]
			}
			messages = append(messages, answer)
			if len(answer.ToolCalls) == 0 {
				break // it has answered the customer
			}
			for _, call := range answer.ToolCalls {
				messages = append(messages, openai.ChatCompletionMessage{
					Role: openai.ChatMessageRoleTool, ToolCallID: call.ID, Content: use(call.Function),
				})
			}
		}
	}
	return nil
}

// ask sends one request of a session and notes what became of it.
func (t *teller) ask(ctx context.Context, request openai.ChatCompletionRequest) (openai.ChatCompletionMessage, error) {
	request.Model = t.model
	t.tally.sending(request)
	resp, err := t.client.CreateChatCompletion(ctx, request)
	if err == nil && len(resp.Choices) == 0 {
		err = errors.New("an answer without a choice")
	}
	if err != nil {
		if ctx.Err() == nil {
			t.tally.failed(err)
		}
		return openai.ChatCompletionMessage{}, err
	}
	t.tally.answered(resp.Usage)
	t.places[resp.Header().Get("X-Prefixwise-Endpoint")] = true
	return resp.Choices[0].Message, nil
}
