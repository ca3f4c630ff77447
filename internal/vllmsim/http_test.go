package vllmsim

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server on a socket and a go-openai client of it.
type fixture struct {
	*Server
	*openai.Client
	url string
	raw *http.Client
}

func start(t *testing.T, cfg Config) *fixture {
	if cfg.TimeScale == 0 {
		cfg.TimeScale = 100
	}
	sim, err := NewServer(cfg)
	require.NoError(t, err)
	t.Cleanup(sim.Close)
	web := httptest.NewServer(sim)
	t.Cleanup(web.Close)
	raw := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(raw.CloseIdleConnections)
	c := openai.DefaultConfig(cfg.APIKey)
	c.BaseURL, c.HTTPClient = web.URL+"/v1", raw
	return &fixture{Server: sim, Client: openai.NewClientWithConfig(c), url: web.URL, raw: raw}
}

// post sends a body and returns status and answer.
func (f *fixture) post(t *testing.T, path, body string) (int, string) {
	resp, err := f.raw.Post(f.url+path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func (f *fixture) get(t *testing.T, path string) (int, string) {
	resp, err := f.raw.Get(f.url + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func user(text string) openai.ChatCompletionRequest {
	return openai.ChatCompletionRequest{Model: DefaultModel, MaxCompletionTokens: 10,
		Messages: []openai.ChatCompletionMessage{{Role: "user", Content: text}}}
}

var longText = strings.Repeat("a text that is long enough for several blocks, ", 20)

func TestChat(t *testing.T) {
	f := start(t, Config{Name: "one"})
	var before string
	for i := range 2 {
		r, err := f.CreateChatCompletion(t.Context(), user(longText))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(r.ID, "chatcmpl-"))
		require.Equal(t, "chat.completion", r.Object)
		require.Equal(t, DefaultModel, r.Model)
		require.Equal(t, "one", r.SystemFingerprint)
		require.Len(t, r.Choices, 1)
		require.Equal(t, openai.FinishReasonLength, r.Choices[0].FinishReason)
		require.Equal(t, "assistant", r.Choices[0].Message.Role)
		require.Len(t, strings.Fields(r.Choices[0].Message.Content), 10)
		require.Equal(t, 10, r.Usage.CompletionTokens)
		require.Equal(t, r.Usage.PromptTokens+10, r.Usage.TotalTokens)
		require.NotNil(t, r.Usage.PromptTokensDetails)
		if i == 0 {
			require.Zero(t, r.Usage.PromptTokensDetails.CachedTokens)
			before = r.Choices[0].Message.Content
		} else {
			require.Equal(t, (r.Usage.PromptTokens-1)/16*16, r.Usage.PromptTokensDetails.CachedTokens)
			require.Equal(t, before, r.Choices[0].Message.Content, "equal prompts have equal answers")
		}
	}
}

func TestChatStream(t *testing.T) {
	f := start(t, Config{})
	plain, err := f.CreateChatCompletion(t.Context(), user("hi"))
	require.NoError(t, err)
	req := user("hi")
	req.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	s, err := f.CreateChatCompletionStream(t.Context(), req)
	require.NoError(t, err)
	defer s.Close()
	var text, finish string
	var usage *openai.Usage
	for n := 0; ; n++ {
		c, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Nil(t, usage, "usage is the last")
		if len(c.Choices) == 0 {
			usage = c.Usage
			continue
		}
		if n == 0 {
			require.Equal(t, "assistant", c.Choices[0].Delta.Role)
			require.Empty(t, c.Choices[0].Delta.Content)
		}
		text += c.Choices[0].Delta.Content
		finish = string(c.Choices[0].FinishReason)
	}
	require.Equal(t, plain.Choices[0].Message.Content, text)
	require.Equal(t, "length", finish)
	require.Equal(t, plain.Usage.TotalTokens, usage.TotalTokens)
}

func TestContinuousUsage(t *testing.T) {
	f := start(t, Config{})
	_, body := f.post(t, "/v1/chat/completions", `{"stream":true,"max_tokens":3,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"messages":[{"role":"user","content":"x"}]}`)
	require.Contains(t, body, `"completion_tokens":3`)
	require.Greater(t, strings.Count(body, `"usage"`), 1)
}

func TestManyAnswers(t *testing.T) {
	f := start(t, Config{})
	req := user(longText)
	req.N = 3
	r, err := f.CreateChatCompletion(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, r.Choices, 3)
	require.NotEqual(t, r.Choices[0].Message.Content, r.Choices[1].Message.Content)
	require.Equal(t, 30, r.Usage.CompletionTokens)
	require.Equal(t, len(prompt(t, `{"messages":[{"role":"user","content":"`+longText+`"}]}`)), r.Usage.PromptTokens, "counted once")

	s, err := f.CreateChatCompletionStream(t.Context(), req)
	require.NoError(t, err)
	defer s.Close()
	texts, finished := map[int]string{}, 0
	for {
		c, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		texts[c.Choices[0].Index] += c.Choices[0].Delta.Content
		if c.Choices[0].FinishReason != "" {
			finished++
		}
	}
	require.Equal(t, 3, finished)
	for i, c := range r.Choices {
		require.Equal(t, c.Message.Content, texts[i])
	}
}

func TestOutputLength(t *testing.T) {
	f := start(t, Config{OutputTokens: 40})
	req := user("hi")
	req.MaxCompletionTokens, req.MaxCompletionTokens = 0, 0
	r, err := f.CreateChatCompletion(t.Context(), req)
	require.NoError(t, err)
	require.LessOrEqual(t, r.Usage.CompletionTokens, 40)
	require.Equal(t, openai.FinishReasonStop, r.Choices[0].FinishReason)
	status, body := f.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":70,"ignore_eos":true}`)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"completion_tokens":70`)
}

func TestCompletions(t *testing.T) {
	f := start(t, Config{})
	req := openai.CompletionRequest{Model: DefaultModel, Prompt: []string{"one", "two"}, MaxTokens: 5}
	r, err := f.CreateCompletion(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, r.Choices, 2)
	require.Equal(t, "text_completion", r.Object)
	require.Equal(t, 10, r.Usage.CompletionTokens)

	req.Prompt = "one"
	s, err := f.CreateCompletionStream(t.Context(), req)
	require.NoError(t, err)
	defer s.Close()
	var text string
	for {
		c, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text += c.Choices[0].Text
	}
	require.Equal(t, r.Choices[0].Text, text)

	_, ids := f.post(t, "/v1/completions", `{"prompt":[1,2,3],"max_tokens":2}`)
	require.Contains(t, ids, `"prompt_tokens":3`)
	_, lists := f.post(t, "/v1/completions", `{"prompt":[[1,2,3],[4]],"max_tokens":2}`)
	require.Contains(t, lists, `"prompt_tokens":4`)
}

func TestEmbeddings(t *testing.T) {
	f := start(t, Config{})
	r, err := f.CreateEmbeddings(t.Context(), openai.EmbeddingRequest{Model: DefaultModel, Input: []string{"a", "b", "a"}})
	require.NoError(t, err)
	require.Len(t, r.Data, 3)
	require.Equal(t, r.Data[0].Embedding, r.Data[2].Embedding)
	require.NotEqual(t, r.Data[0].Embedding, r.Data[1].Embedding)
	dot, err := r.Data[0].DotProduct(&r.Data[2])
	require.NoError(t, err)
	require.InDelta(t, 1, dot, 1e-3)
	b, err := f.CreateEmbeddings(t.Context(), openai.EmbeddingRequest{Model: DefaultModel, Input: "a", EncodingFormat: openai.EmbeddingEncodingFormatBase64})
	require.NoError(t, err)
	require.Equal(t, r.Data[0].Embedding, b.Data[0].Embedding)
	require.Zero(t, f.Counters().GenerationTokens)
}

func TestResponses(t *testing.T) {
	f := start(t, Config{})
	status, body := f.post(t, "/v1/responses", `{"model":"sim-70b","instructions":"Be brief.","input":"Hello","max_output_tokens":5}`)
	require.Equal(t, 200, status, body)
	var first responseAnswer
	require.NoError(t, json.Unmarshal([]byte(body), &first))
	require.Equal(t, "incomplete", first.Status)
	require.Equal(t, 5, first.Usage.OutputTokens)

	status, body = f.post(t, "/v1/responses", `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"And now?"}]}],"previous_response_id":"`+first.ID+`"}`)
	require.Equal(t, 200, status, body)
	var second responseAnswer
	require.NoError(t, json.Unmarshal([]byte(body), &second))
	want := prompt(t, `{"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"`+
		first.Output[0].Content[0].Text+`"},{"role":"user","content":"And now?"}]}`)
	require.Equal(t, len(want), second.Usage.InputTokens)

	status, got := f.get(t, "/v1/responses/"+second.ID)
	require.Equal(t, 200, status)
	require.JSONEq(t, body, got)
	status, body = f.post(t, "/v1/responses", `{"input":"x","previous_response_id":"resp_elsewhere"}`)
	require.Equal(t, 404, status)
	require.Contains(t, body, "not found")
}

func TestMessages(t *testing.T) {
	f := start(t, Config{})
	body := `{"model":"sim-70b","system":[{"type":"text","text":"Be brief."}],"max_tokens":6,"messages":[
		{"role":"user","content":"Hi"},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"tool_use","id":"1","name":"find","input":{"q":1}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"one"}]}],
		"tools":[{"name":"find","input_schema":{"type":"object"}}]}`
	status, text := f.post(t, "/v1/messages", body)
	require.Equal(t, 200, status, text)
	var m struct {
		StopReason string `json:"stop_reason"`
		Content    []struct{ Text string }
		Usage      struct {
			Input int `json:"input_tokens"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	require.Equal(t, "max_tokens", m.StopReason)
	same := prompt(t, `{"tools":[{"type":"function","function":{"name":"find","parameters":{"type":"object"}}}],"messages":[
		{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},
		{"role":"assistant","reasoning":"hm","tool_calls":[{"function":{"name":"find","arguments":"{\"q\":1}"}}]},
		{"role":"tool","content":"one"}]}`)
	require.Equal(t, len(same), m.Usage.Input)

	_, stream := f.post(t, "/v1/messages", strings.Replace(body, `"max_tokens":6`, `"max_tokens":6,"stream":true`, 1))
	var kinds []string
	for line := range strings.Lines(stream) {
		if kind, ok := strings.CutPrefix(line, "event: "); ok {
			kinds = append(kinds, strings.TrimSpace(kind))
		}
	}
	require.Equal(t, []string{"message_start", "content_block_start"}, kinds[:2])
	require.Equal(t, []string{"content_block_stop", "message_delta", "message_stop"}, kinds[len(kinds)-3:])

	status, text = f.post(t, "/v1/messages", `{"messages":[]}`)
	require.Equal(t, 400, status)
	require.Contains(t, text, `"type":"error"`)
}

func TestModelsAndSmallPaths(t *testing.T) {
	f := start(t, Config{Adapters: []string{"law", "art"}, MaxModelLen: 1000, Version: "1.2.3"})
	list, err := f.ListModels(t.Context())
	require.NoError(t, err)
	require.Len(t, list.Models, 3)
	require.Equal(t, DefaultModel, list.Models[0].ID)
	require.Equal(t, DefaultModel, list.Models[2].Parent)
	_, text := f.get(t, "/v1/models")
	require.Contains(t, text, `"max_model_len":1000`)
	require.Contains(t, text, `"max_model_len":null`)
	for path, want := range map[string]string{"/health": "", "/ping": "", "/version": `{"version":"1.2.3"}`} {
		status, text := f.get(t, path)
		require.Equal(t, 200, status, path)
		require.Equal(t, want, text, path)
	}
	_, text = f.post(t, "/tokenize", `{"prompt":"two words"}`)
	require.Contains(t, text, `"count":2`)
	_, text = f.post(t, "/tokenize", `{"messages":[{"role":"user","content":"two words"}]}`)
	require.Contains(t, text, `"count":6`)
	status, _ := f.get(t, "/nothing")
	require.Equal(t, 404, status)
}

func TestAdaptersHaveCachesOfTheirOwn(t *testing.T) {
	f := start(t, Config{Adapters: []string{"law"}})
	cached := func(model, salt string) int {
		_, body := f.post(t, "/v1/chat/completions", `{"model":"`+model+`","max_tokens":1,"messages":[{"role":"user","content":"`+longText+`"}]`+salt+`}`)
		var r openai.ChatCompletionResponse
		require.NoError(t, json.Unmarshal([]byte(body), &r), body)
		require.Equal(t, model, r.Model)
		return r.Usage.PromptTokensDetails.CachedTokens
	}
	require.Zero(t, cached(DefaultModel, ""))
	require.Zero(t, cached("law", ""))
	require.Zero(t, cached("law", `,"cache_salt":"s"`))
	require.NotZero(t, cached("law", ""))
	require.NotZero(t, cached("law", `,"cache_salt":"s"`))
}

func TestMetrics(t *testing.T) {
	f := start(t, Config{})
	for range 2 {
		_, err := f.CreateChatCompletion(t.Context(), user(longText))
		require.NoError(t, err)
	}
	_, text := f.get(t, "/metrics")
	n := len(prompt(t, `{"messages":[{"role":"user","content":"`+longText+`"}]}`))
	labels := `{engine="0",model_name="sim-70b"} `
	for name, want := range map[string]int{
		"vllm:prefix_cache_queries_total": 2 * n, "vllm:prefix_cache_hits_total": (n - 1) / 16 * 16,
		"vllm:prompt_tokens_total": 2 * n, "vllm:generation_tokens_total": 20,
		"vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0,
		"vllm:time_to_first_token_seconds_count": 2,
	} {
		require.Contains(t, text, "\n"+name+labels+number(float64(want))+"\n")
	}
	require.Contains(t, text, `vllm:cache_config_info{block_size="16",`)
	require.Contains(t, text, `vllm:time_to_first_token_seconds_bucket{engine="0",model_name="sim-70b",le="+Inf"} 2.0`)
	require.Contains(t, text, `vllm:request_success_total{engine="0",model_name="sim-70b",finished_reason="length"} 2.0`)
}

func TestErrors(t *testing.T) {
	f := start(t, Config{MaxModelLen: 50})
	for _, c := range []struct {
		name, path, body string
		status           int
		kind, message    string
	}{
		{"not JSON", "/v1/chat/completions", `{`, 400, "Bad Request", "validation"},
		{"not UTF-8", "/v1/chat/completions", "{\"a\":\"\xff\"}", 400, "Bad Request", "UTF-8"},
		{"trailing", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]} x`, 400, "Bad Request", ""},
		{"no messages", "/v1/chat/completions", `{}`, 400, "Bad Request", "messages"},
		{"no prompt", "/v1/completions", `{}`, 400, "Bad Request", "prompt"},
		{"model", "/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":"x"}]}`, 404, "NotFoundError", "The model `x` does not exist."},
		{"too long", "/v1/completions", `{"prompt":"` + longText + `"}`, 400, "BadRequestError", "maximum context length is 50 tokens"},
		{"too much", "/v1/completions", `{"prompt":"x","max_tokens":50}`, 400, "BadRequestError", "maximum context length is 50 tokens"},
		{"max_tokens", "/v1/completions", `{"prompt":"x","max_tokens":0}`, 400, "BadRequestError", "max_tokens"},
		{"n", "/v1/completions", `{"prompt":"x","n":0}`, 400, "BadRequestError", "n must"},
		{"salt", "/v1/completions", `{"prompt":"x","cache_salt":""}`, 400, "BadRequestError", "cache_salt"},
		{"stream options", "/v1/completions", `{"prompt":"x","stream_options":{}}`, 400, "BadRequestError", "stream=True"},
		{"tool choice", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"tool_choice":"auto"}`, 400, "BadRequestError", "tools"},
		{"role", "/v1/chat/completions", `{"messages":[{"role":"x","content":"x"}]}`, 400, "BadRequestError", "role"},
		{"streamed response", "/v1/responses", `{"input":"x","stream":true}`, 501, "NotImplementedError", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := f.post(t, c.path, c.body)
			require.Equal(t, c.status, status, body)
			var e struct{ Error apiError }
			require.NoError(t, json.Unmarshal([]byte(body), &e))
			require.Equal(t, c.kind, e.Error.Type)
			require.Equal(t, c.status, e.Error.Code)
			require.Contains(t, e.Error.Message, c.message)
		})
	}
	_, err := f.CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{Model: "x", Messages: user("x").Messages})
	var api *openai.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, 404, api.HTTPStatusCode)
	require.Equal(t, "model", *api.Param)
}

func TestKeyGuardsOnlyTheAPI(t *testing.T) {
	f := start(t, Config{APIKey: "secret"})
	_, err := f.CreateChatCompletion(t.Context(), user("x"))
	require.NoError(t, err)
	status, body := f.get(t, "/v1/models")
	require.Equal(t, 401, status)
	require.JSONEq(t, `{"error":"Unauthorized"}`, body)
	for _, path := range []string{"/health", "/metrics", "/version"} {
		status, _ := f.get(t, path)
		require.Equal(t, 200, status, path)
	}
}

func TestRequestID(t *testing.T) {
	for _, echo := range []bool{false, true} {
		f := start(t, Config{RequestIDHeaders: echo})
		req, err := http.NewRequestWithContext(t.Context(), "POST", f.url+"/v1/completions", strings.NewReader(`{"prompt":"x"}`))
		require.NoError(t, err)
		req.Header.Set("X-Request-Id", "mine")
		resp, err := f.raw.Do(req)
		require.NoError(t, err)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.Contains(t, string(body), `"id":"cmpl-mine"`)
		require.Equal(t, echo, resp.Header.Get("X-Request-Id") == "mine")
	}
}

func TestUsageWithoutDetails(t *testing.T) {
	f := start(t, Config{NoPromptTokensDetails: true})
	r, err := f.CreateChatCompletion(t.Context(), user("x"))
	require.NoError(t, err)
	require.Nil(t, r.Usage.PromptTokensDetails)
}

func TestFullQueue(t *testing.T) {
	f := start(t, Config{MaxSequences: 1, MaxQueue: 2, TimeScale: 1}) // one runs, one waits
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := user("x")
	req.MaxCompletionTokens, req.Stream = 1000, true
	for range 2 { // the headers of a stream come when it is in the queue
		s, err := f.CreateChatCompletionStream(ctx, req)
		require.NoError(t, err)
		defer s.Close()
	}
	status, body := f.post(t, "/v1/completions", `{"prompt":"x"}`)
	require.Equal(t, 503, status)
	require.Contains(t, body, "currently busy")
	require.EqualValues(t, 1, f.Counters().Rejected)
}

// A client that goes away frees its place in the engine.
func TestDisconnectAborts(t *testing.T) {
	f := start(t, Config{TimeScale: 1})
	for _, stream := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		before := f.Counters().Aborted
		done := make(chan error)
		go func() {
			req := user("x")
			req.MaxCompletionTokens = 100000
			if stream {
				s, err := f.CreateChatCompletionStream(ctx, req)
				for err == nil {
					_, err = s.Recv()
				}
				done <- err
				return
			}
			_, err := f.CreateChatCompletion(ctx, req)
			done <- err
		}()
		require.Eventually(t, func() bool { n, _ := f.Load(); return n == 1 }, 10*time.Second, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.Eventually(t, func() bool { return f.Counters().Aborted == before+1 }, 10*time.Second, time.Millisecond)
		running, waiting := f.Load()
		require.Zero(t, running+waiting)
		require.Zero(t, f.Counters().UsedBlocks)
	}
}
