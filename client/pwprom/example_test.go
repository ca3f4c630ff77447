package pwprom_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/client/pwprom"
)

// A program's /metrics shows what its client has done.
func Example() {
	fleet := fleettest.New(3, fleettest.Config{Model: "sim", TimeScale: 100})
	defer fleet.Close()

	metrics := pwprom.New()
	c, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithObserver(metrics.Trace()))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	metrics.Watch(c)
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(metrics)

	_, err = c.CreateChatCompletion(context.Background(), openai.ChatCompletionRequest{Model: "sim", MaxCompletionTokens: 8,
		Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "What is a prefix cache?"}}})
	if err != nil {
		log.Fatal(err)
	}

	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "prefixwise_endpoints ") || strings.HasPrefix(line, "prefixwise_call_duration_seconds_count") ||
			strings.HasPrefix(line, "prefixwise_completion_tokens_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// prefixwise_call_duration_seconds_count{outcome="canceled"} 0
	// prefixwise_call_duration_seconds_count{outcome="failed"} 0
	// prefixwise_call_duration_seconds_count{outcome="ok"} 1
	// prefixwise_call_duration_seconds_count{outcome="refused"} 0
	// prefixwise_completion_tokens_total 8
	// prefixwise_endpoints 3
}
