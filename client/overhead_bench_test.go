package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/client"
)

// BenchmarkOverhead compares a whole call of ours with one of the bare client,
// against a loopback server that answers at once. Read the ratios of p50-µs
// within one run; absolute values are the machine's. The arms alternate call
// by call, so that both meet the same machine.
func BenchmarkOverhead(b *testing.B) {
	const answer = `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer)
	}))
	defer s.Close()
	config := openai.DefaultConfig("secret")
	config.BaseURL = s.URL + "/v1"
	bare := openai.NewClientWithConfig(config)
	ours, err := client.New(client.WithEndpoints(s.URL), client.WithAPIKey("secret"), client.WithHealthChecks(0), client.WithModelChecks(0))
	if err != nil {
		b.Fatal(err)
	}
	defer ours.Close()
	for _, kb := range []int{4, 64} {
		request := conversation(kb << 10)
		b.Run(fmt.Sprintf("%dKB", kb), func(b *testing.B) {
			b.ReportAllocs()
			var took [2][]time.Duration
			for b.Loop() {
				for i, c := range []*openai.Client{bare, ours.Client} {
					begin := time.Now()
					if _, err := c.CreateChatCompletion(context.Background(), request); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(begin))
				}
			}
			bareP50, oursP50 := median(took[0]), median(took[1])
			b.ReportMetric(float64(bareP50.Nanoseconds())/1e3, "bare-p50-µs")
			b.ReportMetric(float64(oursP50.Nanoseconds())/1e3, "ours-p50-µs")
			b.ReportMetric(float64(oursP50)/float64(bareP50), "p50-ratio")
		})
	}
	for _, kb := range []int{4, 64} {
		request := conversation(kb << 10)
		for name, c := range map[string]*openai.Client{"bare": bare, "ours": ours.Client} {
			b.Run(fmt.Sprintf("throughput/%dKB/%s", kb, name), func(b *testing.B) {
				b.SetParallelism(8)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := c.CreateChatCompletion(context.Background(), request); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// conversation returns a request of about size bytes, in turns of 500.
func conversation(size int) openai.ChatCompletionRequest {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, <again> & again. ", 8)
	r := openai.ChatCompletionRequest{Model: "m", Messages: []openai.ChatCompletionMessage{{Role: "system", Content: "Answer briefly."}}}
	for n := 0; n < size; n += len(text) {
		role := []string{openai.ChatMessageRoleUser, openai.ChatMessageRoleAssistant}[len(r.Messages)%2]
		r.Messages = append(r.Messages, openai.ChatCompletionMessage{Role: role, Content: text})
	}
	return r
}
