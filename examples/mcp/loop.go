package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/examples/internal/trial"
)

const (
	maxSteps = 12 // ends an agent that goes round in circles
	// calling is how many steps a simulated model is told to call a tool in.
	calling   = 4
	maxTokens = 200
)

const policy = `You answer questions about the collection of a museum.
Look everything up with the tools; never guess a date, a place or a loan. One question, one answer.
Work in steps: call a tool, read what it says, and decide what is missing. Stop when nothing is.
Give dates in full. Name the inventory number of every object that you speak of.
When two records differ, trust the younger one and say that they differ.
An object that is on loan cannot be shown: say where it is and when it comes back.
Answer in three sentences at most.`

func task(number int) string {
	topics := []string{"the oldest lamp", "glass from the northern workshops", "a loan that ends this year", "the maker of the tall clock", "what was restored last winter"}
	return fmt.Sprintf("Visitor %d asks about %s, and where to see it.", number, topics[number%len(topics)])
}

// agent works on one task.
type agent struct {
	trial  *trial.Trial
	server *mcp.ClientSession
	tools  []openai.Tool
	stream bool
}

// work is the loop of a tool-calling agent: ask, run the tools that the model
// calls, send their results, until it calls none. Every request repeats all that
// was said before it.
func (a *agent) work(ctx context.Context, task string) (answer string, err error) {
	messages := []openai.ChatCompletionMessage{
		{Role: openai.ChatMessageRoleSystem, Content: policy},
		{Role: openai.ChatMessageRoleUser, Content: task},
	}
	for step := range maxSteps {
		message, err := a.ask(ctx, messages, step)
		if err != nil {
			return "", err
		}
		messages = append(messages, message)
		if len(message.ToolCalls) == 0 {
			return message.Content, nil
		}
		for _, call := range message.ToolCalls {
			result, err := use(ctx, a.server, call.Function)
			if err != nil {
				return "", err
			}
			messages = append(messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: call.ID, Content: result})
		}
	}
	return "", fmt.Errorf("the agent is not done after %d steps", maxSteps)
}

func (a *agent) ask(ctx context.Context, messages []openai.ChatCompletionMessage, step int) (openai.ChatCompletionMessage, error) {
	request := openai.ChatCompletionRequest{Model: a.trial.Model, MaxCompletionTokens: maxTokens, Messages: slices.Clone(messages), Tools: a.tools}
	if a.trial.Simulated && step < calling {
		request.ToolChoice = "required"
	}
	a.trial.Sending(inOrder(request))
	if a.stream {
		return a.streamed(ctx, request)
	}
	resp, err := a.trial.Client.CreateChatCompletion(ctx, request)
	if err != nil {
		return openai.ChatCompletionMessage{}, err
	}
	if len(resp.Choices) == 0 {
		return openai.ChatCompletionMessage{}, errors.New("an answer without a choice")
	}
	return resp.Choices[0].Message, nil
}

// streamed puts the message together from its pieces.
func (a *agent) streamed(ctx context.Context, request openai.ChatCompletionRequest) (openai.ChatCompletionMessage, error) {
	message := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant}
	stream, err := a.trial.Client.CreateChatCompletionStream(ctx, request)
	if err != nil {
		return message, err
	}
	defer stream.Close()
	var text strings.Builder
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			message.Content = text.String()
			return message, nil
		}
		if err != nil {
			return message, err
		}
		for _, choice := range chunk.Choices {
			text.WriteString(choice.Delta.Content)
			for _, piece := range choice.Delta.ToolCalls {
				if piece.ID != "" { // the first piece of a call
					message.ToolCalls = append(message.ToolCalls, openai.ToolCall{ID: piece.ID, Type: piece.Type})
				}
				if len(message.ToolCalls) == 0 {
					return message, errors.New("a piece of a tool call before its beginning")
				}
				call := &message.ToolCalls[len(message.ToolCalls)-1].Function
				call.Name += piece.Function.Name
				call.Arguments += piece.Function.Arguments
			}
		}
	}
}

// inOrder is the request with its tools in the order that all sessions share,
// which an endless cache is measured with.
func inOrder(request openai.ChatCompletionRequest) openai.ChatCompletionRequest {
	request.Tools = slices.SortedFunc(slices.Values(request.Tools), func(a, b openai.Tool) int { return strings.Compare(a.Function.Name, b.Function.Name) })
	return request
}
