package client_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
)

// A conversation stays on one instance, whose cache holds what was said.
func Example() {
	fleet := fleettest.New(3, fleettest.Config{Model: "sim"})
	defer fleet.Close()

	c, err := client.New(client.WithEndpoints(fleet.URLs()...))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	if err := c.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	messages := []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleSystem, Content: "You are a helpful assistant."}}
	places := map[string]bool{}
	for _, question := range []string{"What is a prefix cache?", "And what is prefill?", "Why does it take so long?"} {
		messages = append(messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: question})
		resp, err := c.CreateChatCompletion(ctx, openai.ChatCompletionRequest{Model: "sim", Messages: messages, MaxCompletionTokens: 16})
		if err != nil {
			log.Fatal(err)
		}
		messages = append(messages, resp.Choices[0].Message)
		places[resp.Header().Get("X-Prefixwise-Endpoint")] = true
	}
	fmt.Println("turns: 3, instances:", len(places))
	fmt.Println("something came from the cache:", c.Stats().CachedTokens > 0)
	// Output:
	// turns: 3, instances: 1
	// something came from the cache: true
}

// Check says what to change before prefix routing can help.
func ExampleClient_Check() {
	fleet := fleettest.New(2, fleettest.Config{NoPrefixCaching: true})
	defer fleet.Close()

	c, err := client.New(client.WithEndpoints(fleet.URLs()...))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for _, f := range c.Check(context.Background()) {
		fmt.Printf("%s: %s\n  %s\n", f.Severity, f.Message, f.Advice)
	}
	// Output:
	// severe: prefix caching is off, so no prompt is ever cached
	//   start vLLM without --no-enable-prefix-caching
	// severe: prefix caching is off, so no prompt is ever cached
	//   start vLLM without --no-enable-prefix-caching
}

// Advice says whether it helps, by the traffic that there was.
func ExampleStats_Advice() {
	fleet := fleettest.New(2, fleettest.Config{TimeScale: 500})
	defer fleet.Close()

	c, err := client.New(client.WithEndpoints(fleet.URLs()...))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for i := range 200 { // each about something else
		_, err := c.CreateCompletion(context.Background(), openai.CompletionRequest{
			Model: "sim-70b", MaxTokens: 1, Prompt: strings.Repeat(fmt.Sprint(i, " "), 500)})
		if err != nil {
			log.Fatal(err)
		}
	}
	advice := c.Stats().Advice()
	fmt.Printf("%s: %s\n", advice.Verdict, advice.Reason)
	// Output:
	// not worth it: prompts have little in common: a cache without bounds would have 0 % of them
}
