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
	name string
	says []string // one message after the other, each when the one before is dealt with
	must []string // the tool that each of the agent's answers has to call, "" for none; nil: the model decides
}

// serve is the loop of a tool-calling agent. The session sends everything that
// was said so far with each request, as it was said, so nearly all of each
// prompt has been computed before, on the instance where the session lives.
func (c customer) serve(ctx context.Context, t *teller) error {
	s := t.client.Session(c.name)
	if err := s.Append(openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem, Content: policy}); err != nil {
		return err
	}
	step := 0
	for _, text := range c.says {
		if err := s.Append(openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: text}); err != nil {
			return err
		}
		for {
			if step++; step > maxSteps {
				return fmt.Errorf("the agent is not done after %d steps", maxSteps)
			}
			request := openai.ChatCompletionRequest{Tools: tools, MaxCompletionTokens: 300}
			if c.must != nil && c.must[step-1] != "" {
				request.ToolChoice = openai.ToolChoice{Type: openai.ToolTypeFunction, Function: openai.ToolFunction{Name: c.must[step-1]}}
			}
			answer, err := t.ask(ctx, s.Complete, s.Messages(), request)
			if err != nil {
				return err
			}
			if len(answer.ToolCalls) == 0 {
				break // it has answered the customer
			}
			for _, call := range answer.ToolCalls {
				if err := s.Result(call.ID, use(call.Function)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ask sends one request of a session and notes what became of it. The messages
// are what send has the model read.
func (t *teller) ask(ctx context.Context, send sender, messages []openai.ChatCompletionMessage, request openai.ChatCompletionRequest) (openai.ChatCompletionMessage, error) {
	request.Model = t.model
	t.tally.sending(request, messages)
	resp, err := send(ctx, request)
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

// sender is client.Session.Complete, or go-openai's CreateChatCompletion.
type sender = func(context.Context, openai.ChatCompletionRequest) (openai.ChatCompletionResponse, error)
