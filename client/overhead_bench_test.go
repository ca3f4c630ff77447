package client_test

import (
	"bytes"
	"context"
	"encoding/json"
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
	ours, err := client.New(client.WithEndpoints(s.URL), client.WithAPIKey("secret"), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
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

// BenchmarkChain is what a request costs in our code alone, from the SDK's
// transport to the endpoint's: canonicalizing, hashing, picking, accounting and
// judging the answer, without a network.
func BenchmarkChain(b *testing.B) {
	const answer = `{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(answer)), ContentLength: int64(len(answer)), Request: req}, nil
	})
	var urls []string
	for i := range 8 {
		urls = append(urls, fmt.Sprintf("http://10.0.0.%d:8000", i+1))
	}
	c, err := client.New(client.WithEndpoints(urls...), client.WithTransport(base), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for _, kb := range []int{4, 64} {
		body, err := json.Marshal(conversation(kb << 10))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%dKB", kb), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequest(http.MethodPost, c.BaseURL()+"/chat/completions", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				resp, err := c.Transport().RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
