package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	official "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/client"
)

// recorder is an engine that notes the bodies it is sent.
type recorder struct {
	url    string
	mu     sync.Mutex
	bodies [][]byte
}

const (
	plainAnswer  = `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`
	streamAnswer = "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\n" +
		"data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\"total_tokens\":10}}\n\n" +
		"data: [DONE]\n\n"
)

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := new(recorder)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.bodies = append(r.bodies, body)
		r.mu.Unlock()
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, streamAnswer)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, plainAnswer)
	}))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// fleet is three recorders behind one client, with both SDKs over it.
type fleet struct {
	recorders []*recorder
	ours      *client.Client
	official  official.Client
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := new(fleet)
	var urls []string
	for range 3 {
		r := newRecorder(t)
		f.recorders = append(f.recorders, r)
		urls = append(urls, r.url)
	}
	c, err := client.New(client.WithEndpoints(urls...), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	f.ours = c
	f.official = official.NewClient(option.WithBaseURL(c.BaseURL()), option.WithHTTPClient(c.HTTPClient()), option.WithAPIKey("none"))
	return f
}

// take returns where the one request since the last take went, and its body.
func (f *fleet) take(t *testing.T) (url string, body []byte) {
	t.Helper()
	n := 0
	for _, r := range f.recorders {
		r.mu.Lock()
		for _, b := range r.bodies {
			url, body = r.url, b
			n++
		}
		r.bodies = nil
		r.mu.Unlock()
	}
	require.Equal(t, 1, n, "requests")
	return url, body
}

// chatCase is one chat, written with the types of either SDK.
type chatCase struct {
	name     string
	ours     openai.ChatCompletionRequest
	official official.ChatCompletionNewParams
}

const (
	system    = `You compare prices. Write <b>bold</b> & never "quote"; "caf\u00e9" is not café.`
	question  = "Is 3 < 4 && 5 > 4?\n\ttabs, ünïcödé, 日本語, 👩‍🚀, \u2028 and a \\ backslash"
	weather   = `{"type":"object","properties":{"city":{"type":"string","description":"<name> & country"},"days":{"type":"integer","minimum":1,"default":1},"zip":{"type":"string"}},"required":["zip","city"],"additionalProperties":false}`
	arguments = `{"city": "Z\u00fcrich <ZH>", "days": 1.0}`
)

func cases(t *testing.T) []chatCase {
	var parameters map[string]any
	// The official SDK takes a map and so writes properties in alphabetical
	// order. Canon never reorders them, since their order steers generation;
	// hence the schema has them in that order for both.
	require.NoError(t, json.Unmarshal([]byte(weather), &parameters))

	text := chatCase{
		name: "text with markup",
		ours: openai.ChatCompletionRequest{Model: "m", MaxCompletionTokens: 20, Messages: []openai.ChatCompletionMessage{
			{Role: "system", Content: system}, {Role: "user", Content: question}}},
		official: official.ChatCompletionNewParams{Model: "m", MaxCompletionTokens: official.Int(20), Messages: []official.ChatCompletionMessageParamUnion{
			official.SystemMessage(system), official.UserMessage(question)}},
	}

	turns := text
	turns.name = "later turns"
	turns.ours.Messages = append(turns.ours.Messages[:2:2],
		openai.ChatCompletionMessage{Role: "assistant", Content: "Yes & yes."}, openai.ChatCompletionMessage{Role: "user", Content: "Sure?"})
	turns.official.Messages = append(turns.official.Messages[:2:2], official.AssistantMessage("Yes & yes."), official.UserMessage("Sure?"))

	parts := text
	parts.name = "text parts"
	parts.ours.Messages = []openai.ChatCompletionMessage{{Role: "user", MultiContent: []openai.ChatMessagePart{
		{Type: openai.ChatMessagePartTypeText, Text: "one <1>"}, {Type: openai.ChatMessagePartTypeText, Text: "two"}}}}
	parts.official.Messages = []official.ChatCompletionMessageParamUnion{official.UserMessage([]official.ChatCompletionContentPartUnionParam{
		official.TextContentPart("one <1>"), official.TextContentPart("two")})}

	// The two SDKs are given the tools in different orders, as a program does
	// that keeps them in a map.
	tools := turns
	tools.name = "tools and their results"
	tools.ours.Tools = []openai.Tool{
		{Type: "function", Function: &openai.FunctionDefinition{Name: "weather", Description: "Weather <now> & later", Parameters: json.RawMessage(weather)}},
		{Type: "function", Function: &openai.FunctionDefinition{Name: "clock", Description: "The time", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}},
	}
	tools.ours.ToolChoice = "auto"
	tools.ours.Messages = append(tools.ours.Messages[:4:4],
		openai.ChatCompletionMessage{Role: "assistant", ToolCalls: []openai.ToolCall{{ID: "call_1", Type: "function", Function: openai.FunctionCall{Name: "weather", Arguments: arguments}}}},
		openai.ChatCompletionMessage{Role: "tool", ToolCallID: "call_1", Content: `{"sky":"<clear> & dry"}`})
	tools.official.Tools = []official.ChatCompletionToolUnionParam{
		official.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "clock", Description: official.String("The time"),
			Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{}}}),
		official.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "weather", Description: official.String("Weather <now> & later"),
			Parameters: parameters}),
	}
	tools.official.ToolChoice = official.ChatCompletionToolChoiceOptionUnionParam{OfAuto: official.String("auto")}
	tools.official.Messages = append(tools.official.Messages[:4:4],
		official.ChatCompletionMessageParamUnion{OfAssistant: &official.ChatCompletionAssistantMessageParam{
			ToolCalls: []official.ChatCompletionMessageToolCallUnionParam{{OfFunction: &official.ChatCompletionMessageFunctionToolCallParam{
				ID: "call_1", Function: official.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "weather", Arguments: arguments}}}}}},
		official.ToolMessage(`{"sky":"<clear> & dry"}`, "call_1"))
	return []chatCase{text, turns, parts, tools}
}

// The same chat has the same key, reaches the same engine and is the same bytes
// there, whichever SDK has written it.
func TestBothSDKsAreTheSameOnTheWire(t *testing.T) {
	for _, tt := range cases(t) {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", tt.name, stream), func(t *testing.T) {
				f := newFleet(t)
				send(t, f, tt, stream)
			})
		}
	}
}

func send(t *testing.T, f *fleet, tt chatCase, stream bool) {
	ctx := t.Context()
	if stream {
		s, err := f.ours.CreateChatCompletionStream(ctx, tt.ours)
		require.NoError(t, err)
		for {
			if _, err = s.Recv(); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, s.Close())
	} else {
		_, err := f.ours.CreateChatCompletion(ctx, tt.ours)
		require.NoError(t, err)
	}
	ourPlace, ourBody := f.take(t)

	if stream {
		s := f.official.Chat.Completions.NewStreaming(ctx, tt.official)
		for s.Next() {
		}
		require.NoError(t, s.Err())
		require.NoError(t, s.Close())
	} else {
		_, err := f.official.Chat.Completions.New(ctx, tt.official)
		require.NoError(t, err)
	}
	officialPlace, officialBody := f.take(t)

	require.Equal(t, withoutStreamFalse(ourBody), string(officialBody))
	require.Equal(t, ourPlace, officialPlace)
	require.NotContains(t, string(ourBody), `\u003c`)
}

// withoutStreamFalse removes the one field that go-openai 1.43 adds: it is not
// in the prompt, so it is not in the key.
func withoutStreamFalse(body []byte) string {
	return strings.Replace(string(body), `,"stream":false`, "", 1)
}

// By themselves the two SDKs write other bytes, which canon sees through: it
// finds the same keys in both.
func TestBothSDKsHaveTheSameKeys(t *testing.T) {
	for _, tt := range cases(t) {
		r := newRecorder(t)
		config := openai.DefaultConfig("none")
		config.BaseURL = r.url + "/v1"
		_, err := openai.NewClientWithConfig(config).CreateChatCompletion(context.Background(), tt.ours)
		require.NoError(t, err)
		sdk := official.NewClient(option.WithBaseURL(config.BaseURL), option.WithAPIKey("none"))
		_, err = sdk.Chat.Completions.New(context.Background(), tt.official)
		require.NoError(t, err)
		require.Len(t, r.bodies, 2)
		require.NotEqual(t, string(r.bodies[0]), string(r.bodies[1]), tt.name)
		ours, err := canon.Canonicalize(canon.Chat, r.bodies[0])
		require.NoError(t, err)
		theirs, err := canon.Canonicalize(canon.Chat, r.bodies[1])
		require.NoError(t, err)
		require.Equal(t, canon.OK, ours.Diagnosis.Code)
		require.Equal(t, [2]uint64{ours.Head, ours.Root}, [2]uint64{theirs.Head, theirs.Root}, tt.name)
		require.Equal(t, ours.Boundaries, theirs.Boundaries, tt.name)
		require.Equal(t, withoutStreamFalse(ours.Body), string(theirs.Body), tt.name)
	}
}
