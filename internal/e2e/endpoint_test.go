package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// endpoint is an engine, real or simulated.
type endpoint struct {
	url      string
	model    string   // the base model
	adapters []string // the LoRA adapters served beside it
	block    int      // tokens of a cache block
}

// web keeps no connection: a test must see what a new one meets.
var web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Minute}

var blockSize = regexp.MustCompile(`^vllm:cache_config_info\{(?:.*,)?block_size="(\d+)"`)

func dial(t testing.TB, url string) endpoint {
	e := endpoint{url: strings.TrimSuffix(url, "/")}
	a := e.get(t, "/v1/models")
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	for _, card := range a.list(t, "data") {
		card := card.(map[string]any)
		if id := card["id"].(string); card["parent"] == nil {
			e.model = id
		} else {
			e.adapters = append(e.adapters, id)
		}
	}
	for line := range strings.Lines(string(e.get(t, "/metrics").body)) {
		if found := blockSize.FindStringSubmatch(line); found != nil {
			n, err := strconv.Atoi(found[1])
			require.NoError(t, err)
			e.block = n
		}
	}
	require.Positive(t, e.block, "block_size of vllm:cache_config_info")
	return e
}

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (e endpoint) do(t testing.TB, method, path string, body []byte, header ...string) answer {
	req, err := http.NewRequest(method, e.url+path, bytes.NewReader(body))
	require.NoError(t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := web.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header, text}
}

func (e endpoint) get(t testing.TB, path string) answer {
	return e.do(t, http.MethodGet, path, nil)
}

func (e endpoint) post(t testing.TB, path string, body any, header ...string) answer {
	raw, ok := body.([]byte)
	if !ok {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(t, err)
	}
	return e.do(t, http.MethodPost, path, raw, header...)
}

// fields is a JSON object in the making.
type fields map[string]any

// chat asks for a few tokens after one user message; more overrides members,
// and a nil value takes one away.
func (e endpoint) chat(t testing.TB, text string, more fields) answer {
	body := fields{"model": e.model, "messages": []fields{{"role": "user", "content": text}},
		"max_tokens": 4, "temperature": 0, "ignore_eos": true}
	for k, v := range more {
		if body[k] = v; v == nil {
			delete(body, k)
		}
	}
	return e.post(t, "/v1/chat/completions", body)
}

// at returns the member under a path such as "choices.0.message.role".
func (a answer) at(t testing.TB, path string) any {
	var v any
	require.NoError(t, json.Unmarshal(a.body, &v), "%s", a.body)
	return member(t, v, path)
}

func member(t testing.TB, v any, path string) any {
	for _, name := range strings.Split(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			found, ok := in[name]
			require.True(t, ok, "no %s (of %s) in %v", name, path, v)
			v = found
		case []any:
			i, err := strconv.Atoi(name)
			require.NoError(t, err)
			require.Less(t, i, len(in), "%s in %v", path, v)
			v = in[i]
		default:
			require.Fail(t, "no such member", "%s in %v", path, v)
		}
	}
	return v
}

func (a answer) list(t testing.TB, path string) []any {
	l, ok := a.at(t, path).([]any)
	require.True(t, ok, "%s is no list in %s", path, a.body)
	return l
}

func (a answer) number(t testing.TB, path string) int {
	n, ok := a.at(t, path).(float64)
	require.True(t, ok, "%s is no number in %s", path, a.body)
	return int(n)
}

// events returns the data of a stream's events.
func (a answer) events(t testing.TB) []string {
	var all []string
	in := bufio.NewScanner(bytes.NewReader(a.body))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			all = append(all, data)
		}
	}
	require.NoError(t, in.Err())
	return all
}

// metric is the sum of a metric's series.
func (e endpoint) metric(t testing.TB, name string) float64 {
	var sum float64
	for line := range strings.Lines(string(e.get(t, "/metrics").body)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok && (rest[0] == '{' || rest[0] == ' ') {
			v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			require.NoError(t, err, "%s", line)
			sum += v
		}
	}
	return sum
}

// tokens is the number of tokens of a conversation, by /tokenize, which renders
// messages and tools as a chat completion does.
func (e endpoint) tokens(t testing.TB, body fields) int {
	a := e.post(t, "/tokenize", body)
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	return a.number(t, "count")
}

// until waits for a condition that the engine reports late.
func until(t testing.TB, what string, is func() bool) {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	for !is() {
		select {
		case <-ctx.Done():
			require.Fail(t, "gave up waiting", "%s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// fresh begins a text that no cache can hold yet.
func fresh() string {
	return fmt.Sprintf("%d is when this was written. ", time.Now().UnixNano())
}
