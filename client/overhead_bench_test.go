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
	"sync"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/client"
)

// BenchmarkOverhead compares a whole call of ours with one of the bare client,
// against a loopback server that answers at once: the median time of a call
// alone, how many of sixteen callers' calls get through in the same time, and the
// time of a stream of 256 events.
// Read the ratios; absolute values are the machine's. The arms alternate, so
// that both meet the same machine, and on a busy one the ratio of a round, one
// call of each, says most. The bare client is as its users have it, but for as
// many connections to spare as ours.
func BenchmarkOverhead(b *testing.B) {
	const answer = `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`
	const chunk = `data: {"id":"1","object":"chat.completion.chunk","created":1694268190,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	const end = `data: {"id":"1","object":"chat.completion.chunk","created":1694268190,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	events := strings.Repeat(chunk, 256) + end
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.Header.Get("Accept") == "text/event-stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, events)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer)
	}))
	defer s.Close()
	config := openai.DefaultConfig("secret")
	config.BaseURL = s.URL + "/v1"
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 256
	config.HTTPClient = &http.Client{Transport: transport}
	bare := openai.NewClientWithConfig(config)
	ours, err := client.New(client.WithEndpoints(s.URL), client.WithAPIKey("secret"), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
	if err != nil {
		b.Fatal(err)
	}
	defer ours.Close()
	call := func(b *testing.B, c *openai.Client, request openai.ChatCompletionRequest) {
		if _, err := c.CreateChatCompletion(context.Background(), request); err != nil {
			b.Error(err)
		}
	}
	alternate := func(b *testing.B, run func(*openai.Client)) (bareP50, oursP50, ratio float64) {
		b.ReportAllocs()
		arms := [2]*openai.Client{bare, ours.Client}
		var took [2][]float64
		var ratios []float64 // of one round each, which meets a busy machine with both arms
		for first := 0; b.Loop(); first = 1 - first {
			for _, i := range []int{first, 1 - first} {
				begin := time.Now()
				run(arms[i])
				took[i] = append(took[i], float64(time.Since(begin)))
			}
			last := len(took[0]) - 1
			ratios = append(ratios, took[1][last]/took[0][last])
		}
		return median(took[0]), median(took[1]), median(ratios)
	}
	for _, kb := range []int{4, 64} {
		request := conversation(kb << 10)
		b.Run(fmt.Sprintf("latency/%dKB", kb), func(b *testing.B) {
			bareP50, oursP50, ratio := alternate(b, func(c *openai.Client) { call(b, c, request) })
			b.ReportMetric(bareP50/1e3, "bare-p50-µs")
			b.ReportMetric(oursP50/1e3, "ours-p50-µs")
			b.ReportMetric(oursP50/bareP50, "p50-ratio")
			b.ReportMetric(ratio, "round-ratio")
		})
		b.Run(fmt.Sprintf("throughput/%dKB", kb), func(b *testing.B) {
			const callers = 16
			bareP50, oursP50, ratio := alternate(b, func(c *openai.Client) {
				var all sync.WaitGroup
				for range callers {
					all.Go(func() { call(b, c, request) })
				}
				all.Wait()
			})
			b.ReportMetric(callers/bareP50*1e9, "bare-calls/s")
			b.ReportMetric(callers/oursP50*1e9, "ours-calls/s")
			b.ReportMetric(1/ratio, "throughput-ratio")
		})
	}
	request := conversation(4 << 10)
	b.Run("stream", func(b *testing.B) {
		bareP50, oursP50, ratio := alternate(b, func(c *openai.Client) {
			stream, err := c.CreateChatCompletionStream(context.Background(), request)
			if err != nil {
				b.Fatal(err)
			}
			defer stream.Close()
			for err == nil {
				_, err = stream.Recv()
			}
			if err != io.EOF {
				b.Error(err)
			}
		})
		b.ReportMetric(bareP50/1e3, "bare-p50-µs")
		b.ReportMetric(oursP50/1e3, "ours-p50-µs")
		b.ReportMetric(oursP50/bareP50, "p50-ratio")
		b.ReportMetric(ratio, "round-ratio")
	})
}

func median(d []float64) float64 {
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
