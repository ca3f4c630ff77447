package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
)

// An agent's loop: ask, run the tools that the model calls, give it their
// results, until it calls none. Every request is the one before and more, and
// all go to the instance that has that in its cache.
func ExampleSession() {
	fleet := fleettest.New(3, fleettest.Config{Model: "sim"})
	defer fleet.Close()
	c, err := client.New(client.WithEndpoints(fleet.URLs()...))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	tools := []openai.Tool{{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{Name: "weather",
		Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}}}
	weather := func(arguments string) string { return "12 degrees, rain" }

	s := c.Session("trip-7")
	err = s.Append(
		openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem, Content: "You plan trips."},
		openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: "Do I need a coat in Oslo?"},
	)
	if err != nil {
		log.Fatal(err)
	}
	req := openai.ChatCompletionRequest{Model: "sim", Tools: tools, ToolChoice: "required", MaxCompletionTokens: 40}
	for {
		resp, err := s.Complete(ctx, req)
		if err != nil {
			log.Fatal(err)
		}
		calls := resp.Choices[0].Message.ToolCalls
		if len(calls) == 0 {
			break
		}
		for _, call := range calls { // or a goroutine for each
			if err := s.Result(call.ID, weather(call.Function.Arguments)); err != nil {
				log.Fatal(err)
			}
		}
		req.ToolChoice = nil // a simulated model calls a tool only when it must
	}

	for _, m := range s.Messages() {
		fmt.Println(m.Role)
	}
	fmt.Println("something came from the cache:", c.Stats().CachedTokens > 0)
	// Output:
	// system
	// user
	// assistant
	// tool
	// assistant
	// something came from the cache: true
}
