package pwotel_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sashabaranov/go-openai"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/client/pwotel"
)

// A call becomes a span of the program's trace. Programs that set the global
// providers and propagator write pwotel.New() alone.
func Example() {
	fleet := fleettest.New(3, fleettest.Config{Model: "sim", TimeScale: 100})
	defer fleet.Close()

	exporter := tracetest.NewInMemoryExporter() // in a program: OTLP
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	c, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithObserver(pwotel.New(
		pwotel.WithTracerProvider(tracers),
		pwotel.WithPropagator(propagation.TraceContext{}),
	)))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.CreateChatCompletion(context.Background(), openai.ChatCompletionRequest{Model: "sim", MaxCompletionTokens: 8,
		Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "What is a prefix cache?"}}})
	if err != nil {
		log.Fatal(err)
	}

	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name, span.SpanKind)
		for _, a := range span.Attributes {
			switch a.Key {
			case "prefixwise.attempts", "prefixwise.reason", "gen_ai.usage.output_tokens":
				fmt.Printf("  %s: %s\n", a.Key, a.Value.String())
			}
		}
	}
	// Output:
	// attempt client
	//   prefixwise.reason: home
	// chat sim client
	//   prefixwise.attempts: 1
	//   prefixwise.reason: home
	//   gen_ai.usage.output_tokens: 8
}
