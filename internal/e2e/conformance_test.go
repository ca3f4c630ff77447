package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// conform holds an engine to what the library relies on. Every expectation was
// seen on vLLM 0.32.0 (testdata/protocol.json and gauges.json), and the
// simulator has to meet it too. The engine must have prefix caching, prompt
// token details, a tool parser and two adapters, and be idle. The texts of
// errors are not looked at: the library branches on the status.
func conform(t *testing.T, e endpoint) {
	t.Run("Health", func(t *testing.T) { conformHealth(t, e) })
	t.Run("Models", func(t *testing.T) { conformModels(t, e) })
	t.Run("Chat", func(t *testing.T) { conformChat(t, e) })
	t.Run("Stream", func(t *testing.T) { conformStream(t, e) })
	t.Run("Errors", func(t *testing.T) { conformErrors(t, e) })
	t.Run("Cache", func(t *testing.T) { conformCache(t, e) })
	t.Run("Cancel", func(t *testing.T) { conformCancel(t, e) })
	t.Run("Gauges", func(t *testing.T) { conformGauges(t, e) })
}

func conformHealth(t *testing.T, e endpoint) {
	a := e.get(t, "/health")
	assert.Equal(t, http.StatusOK, a.status)
	assert.Empty(t, a.body)
	assert.NotEmpty(t, e.get(t, "/version").at(t, "version"))
}

func conformModels(t *testing.T, e endpoint) {
	require.Len(t, e.adapters, 2)
	for i, card := range e.get(t, "/v1/models").list(t, "data") {
		assert.Equal(t, "model", member(t, card, "object"))
		parent, length := member(t, card, "parent"), member(t, card, "max_model_len")
		if i == 0 { // the base model comes first
			assert.Nil(t, parent)
			assert.IsType(t, 0.0, length)
		} else {
			assert.Equal(t, e.model, parent)
			assert.Nil(t, length)
		}
	}
}

func conformChat(t *testing.T, e endpoint) {
	a := e.chat(t, fresh(), nil)
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	assert.Equal(t, "application/json", a.header.Get("Content-Type"))
	assert.Equal(t, "chat.completion", a.at(t, "object"))
	assert.Equal(t, e.model, a.at(t, "model"))
	assert.Equal(t, "assistant", a.at(t, "choices.0.message.role"))
	assert.IsType(t, "", a.at(t, "choices.0.message.content"))
	assert.Equal(t, "length", a.at(t, "choices.0.finish_reason"))
	assert.Equal(t, 4, a.number(t, "usage.completion_tokens"))
	assert.Equal(t, a.number(t, "usage.prompt_tokens")+4, a.number(t, "usage.total_tokens"))
	// Present and 0, not absent, with --enable-prompt-tokens-details.
	assert.Equal(t, 0, a.number(t, "usage.prompt_tokens_details.cached_tokens"))

	// go-openai always sends a model, maybe an empty one; both mean the base model.
	assert.Equal(t, e.model, e.chat(t, "x", fields{"model": ""}).at(t, "model"))
	assert.Equal(t, e.model, e.chat(t, "x", fields{"model": nil}).at(t, "model"))
	assert.Equal(t, e.adapters[0], e.chat(t, "x", fields{"model": e.adapters[0]}).at(t, "model"))
	// Fields that the engine does not know are no error.
	assert.Equal(t, http.StatusOK, e.chat(t, "x", fields{"prompt_cache_key": "k", "no_such_field": 1}).status)

	a = e.post(t, "/v1/completions", fields{"model": e.model, "prompt": fresh(), "max_tokens": 3, "ignore_eos": true})
	assert.Equal(t, "text_completion", a.at(t, "object"))
	assert.Equal(t, "length", a.at(t, "choices.0.finish_reason"))
	assert.Equal(t, 0, a.number(t, "usage.prompt_tokens_details.cached_tokens"))
}

func conformStream(t *testing.T, e endpoint) {
	a := e.chat(t, fresh(), fields{"stream": true})
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	assert.True(t, strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream"))
	events := a.events(t)
	require.Greater(t, len(events), 2)
	assert.Equal(t, "[DONE]", events[len(events)-1])
	for i, data := range events[:len(events)-1] {
		var chunk any
		require.NoError(t, json.Unmarshal([]byte(data), &chunk))
		assert.Equal(t, "chat.completion.chunk", member(t, chunk, "object"))
		choices := member(t, chunk, "choices").([]any)
		require.Len(t, choices, 1, "no usage chunk unless asked for")
		if i == 0 { // a chunk of its own, before any content
			assert.Equal(t, "assistant", member(t, choices[0], "delta.role"))
			assert.Equal(t, "", member(t, choices[0], "delta.content"))
		}
		var want any
		if i == len(events)-2 {
			want = "length"
		}
		assert.Equal(t, want, member(t, choices[0], "finish_reason"))
	}

	// The header tells nothing about the first token: it comes when the request
	// is taken.
	begun := time.Now()
	resp := e.open(t, context.Background(), fresh()+strings.Repeat("a b c d e f g h ", 700), 1)
	header := time.Since(begun)
	_, err := resp.Body.Read(make([]byte, 1))
	require.NoError(t, err)
	resp.Body.Close()
	assert.Less(t, header, time.Since(begun)/2)

	a = e.chat(t, fresh(), fields{"stream": true, "stream_options": fields{"include_usage": true}})
	events = a.events(t)
	require.Greater(t, len(events), 3)
	var usage any
	require.NoError(t, json.Unmarshal([]byte(events[len(events)-2]), &usage))
	assert.Empty(t, member(t, usage, "choices"), "the usage chunk has no choice")
	assert.Equal(t, 4.0, member(t, usage, "usage.completion_tokens"))
	assert.Equal(t, 0.0, member(t, usage, "usage.prompt_tokens_details.cached_tokens"))

	// Two greedy answers are an error, so not with temperature 0.
	a = e.chat(t, fresh(), fields{"stream": true, "n": 2, "temperature": 1})
	finished := map[any]int{}
	for _, data := range a.events(t) {
		if data == "[DONE]" {
			continue
		}
		var chunk any
		require.NoError(t, json.Unmarshal([]byte(data), &chunk))
		for _, c := range member(t, chunk, "choices").([]any) {
			if member(t, c, "finish_reason") != nil {
				finished[member(t, c, "index")]++
			}
		}
	}
	assert.Equal(t, map[any]int{0.0: 1, 1.0: 1}, finished, "every choice finishes once")
}

func conformErrors(t *testing.T, e endpoint) {
	long := strings.Repeat("word ", 200_000)
	tool := []fields{{"type": "function", "function": fields{"name": "f"}}}
	for _, c := range []struct {
		name   string
		body   fields
		status int
		kind   string
		param  any
	}{
		{"a model that is not served", fields{"model": "nope"}, 404, "NotFoundError", "model"},
		{"too long", fields{"messages": []fields{{"role": "user", "content": long}}}, 400, "BadRequestError", "input_tokens"},
		{"more output than context", fields{"max_tokens": 10_000_000}, 400, "BadRequestError", "max_tokens"},
		{"no output", fields{"max_tokens": 0}, 400, "BadRequestError", "max_tokens"},
		{"a string for a number", fields{"temperature": "hot"}, 400, "Bad Request", "body.temperature"},
		{"a number out of range", fields{"temperature": -1}, 400, "BadRequestError", "temperature"},
		{"no messages", fields{"messages": nil}, 400, "Bad Request", "body.messages"},
		{"empty messages", fields{"messages": []fields{}}, 400, "BadRequestError", nil},
		{"usage options without a stream", fields{"stream_options": fields{"include_usage": true}}, 400, "BadRequestError", "stream_options"},
		{"an empty salt", fields{"cache_salt": ""}, 400, "BadRequestError", "cache_salt"},
		{"a slash in the salt", fields{"cache_salt": "a/b"}, 400, "BadRequestError", "cache_salt"},
		{"empty tools", fields{"tools": []fields{}}, 400, "BadRequestError", "tools"},
		{"a choice without tools", fields{"tool_choice": "auto"}, 400, "BadRequestError", "tool_choice"},
		{"a choice that is no tool", fields{"tools": tool, "tool_choice": fields{"type": "function", "function": fields{"name": "g"}}}, 400, "BadRequestError", "tool_choice"},
	} {
		for _, stream := range []bool{false, true} {
			body := fields{}
			for k, v := range c.body {
				body[k] = v
			}
			if stream {
				if body["stream_options"] != nil {
					continue
				}
				body["stream"] = true
			}
			a := e.chat(t, "hello", body)
			// An error that is found before generation is a status even for a stream.
			if !assert.Equal(t, c.status, a.status, "%s: %s", c.name, a.body) {
				continue
			}
			assert.Equal(t, c.kind, a.at(t, "error.type"), c.name)
			assert.Equal(t, c.param, a.at(t, "error.param"), c.name)
			assert.Equal(t, c.status, a.number(t, "error.code"), c.name)
			assert.NotEmpty(t, a.at(t, "error.message"), c.name)
			assert.Less(t, len(a.body), 4096, c.name)
		}
	}

	a := e.post(t, "/v1/chat/completions", []byte(`{"model":`))
	assert.Equal(t, http.StatusBadRequest, a.status)
	assert.Equal(t, "Bad Request", a.at(t, "error.type"))

	// Errors of the layer below are not in the form of the others.
	a = e.post(t, "/v1/nothing", fields{})
	assert.Equal(t, http.StatusNotFound, a.status)
	assert.JSONEq(t, `{"detail":"Not Found"}`, string(a.body))
}

func conformCache(t *testing.T, e endpoint) {
	text := fresh() + strings.Repeat("The quick brown fox jumps over the lazy dog. ", 40)
	cached := func(more fields) (prompt, cached int) {
		a := e.chat(t, text, more)
		require.Equal(t, http.StatusOK, a.status, "%s", a.body)
		return a.number(t, "usage.prompt_tokens"), a.number(t, "usage.prompt_tokens_details.cached_tokens")
	}
	n, hit := cached(nil)
	assert.Zero(t, hit)
	whole := (n - 1) / e.block * e.block // the last token is always computed
	_, hit = cached(nil)
	assert.Equal(t, whole, hit, "again")
	_, hit = cached(fields{"temperature": 1, "seed": 3, "user": "u", "stop": []string{"x"}, "max_tokens": 2})
	assert.Equal(t, whole, hit, "sampling is not part of it")
	_, hit = cached(fields{"messages": []fields{{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}}})
	assert.GreaterOrEqual(t, hit, whole-e.block, "a further turn")
	_, hit = cached(fields{"cache_salt": "one"})
	assert.Zero(t, hit, "a salt separates")
	_, hit = cached(fields{"cache_salt": "one"})
	assert.Equal(t, whole, hit, "an equal salt does not")
	_, hit = cached(fields{"cache_salt": "two"})
	assert.Zero(t, hit, "another salt")
	_, hit = cached(fields{"model": e.adapters[0]})
	assert.Zero(t, hit, "an adapter separates")
	_, hit = cached(fields{"model": e.adapters[0]})
	assert.Equal(t, whole, hit, "the same adapter does not")
	_, hit = cached(fields{"model": e.adapters[1]})
	assert.Zero(t, hit, "another adapter")
}

// open sends a streamed chat and returns once the response has begun.
func (e endpoint) open(t *testing.T, ctx context.Context, text string, tokens int) *http.Response {
	body, err := json.Marshal(fields{"model": e.model, "messages": []fields{{"role": "user", "content": text}},
		"max_tokens": tokens, "ignore_eos": true, "stream": true})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v1/chat/completions", strings.NewReader(string(body)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := web.Do(req)
	require.NoError(t, err)
	return resp
}

func conformCancel(t *testing.T, e endpoint) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	resp := e.open(t, ctx, fresh(), 4000)
	defer resp.Body.Close()
	_, err := resp.Body.Read(make([]byte, 64))
	require.NoError(t, err)
	until(t, "the request to run", func() bool { return e.metric(t, "vllm:num_requests_running") == 1 })
	cancel()
	until(t, "the request to be gone", func() bool { return e.metric(t, "vllm:num_requests_running") == 0 })
	// Well before its 4,000 tokens, and what it had cached stays.
}

// conformGauges checks the two facts that an estimate of an engine's backlog
// stands on: queries counts a prompt when it is admitted and prompt_tokens when
// its first token is there; so their difference is what is being computed, plus
// every prompt whose client left before its first token, for good.
func conformGauges(t *testing.T, e endpoint) {
	names := []string{"vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:prompt_tokens_total", "vllm:time_to_first_token_seconds_count"}
	read := func() (v [4]float64) {
		for i, name := range names {
			v[i] = e.metric(t, name)
		}
		return v
	}
	before := read()
	a := e.chat(t, fresh(), nil)
	n := float64(a.number(t, "usage.prompt_tokens"))
	want := [4]float64{before[0] + n, before[1], before[2] + n, before[3] + 1}
	until(t, "the counters of one request", func() bool { return read() == want })

	text := fresh() + strings.Repeat("a b c d e f g h ", 700)
	long := float64(e.tokens(t, fields{"model": e.model, "messages": []fields{{"role": "user", "content": text}}}))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	resp := e.open(t, ctx, text, 4)
	defer resp.Body.Close()
	until(t, "the prompt to be admitted", func() bool { return e.metric(t, names[0]) == want[0]+long })
	if e.metric(t, names[3]) != want[3] {
		t.Skip("the engine was done with the prompt before it could be aborted")
	}
	cancel()
	until(t, "the request to be gone", func() bool { return e.metric(t, "vllm:num_requests_running") == 0 })
	now := read()
	assert.Equal(t, want[0]+long, now[0], "queries keeps the aborted prompt")
	assert.Equal(t, want[2], now[2], "prompt_tokens never sees it")
	assert.Equal(t, want[3], now[3])
}
