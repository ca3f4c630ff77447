package middleware

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

func TestUsageIn(t *testing.T) {
	tests := map[string]usage{
		`{"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}`: {5, 0, 2},
		`{"usage":{"prompt_tokens":5,"prompt_tokens_details":null}}`:                                      {5, -1, -1},
		`{ "usage" : { "input_tokens" : 5, "input_tokens_details" : {"cached_tokens" : 4} } }`:            {5, 4, -1},
		`{"usage":{"input_tokens":5,"cache_read_input_tokens":3,"output_tokens":1}}`:                      {8, 3, 1},
		`{"usage":{"input_tokens":14,"cache_creation_input_tokens":16,"cache_read_input_tokens":400}}`:    {430, 400, -1},
		fmt.Sprintf(`{"usage":{"input_tokens":1,"cache_read_input_tokens":%d}}`, math.MaxInt):             {1, math.MaxInt, -1},
		`{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":1}"}}],"usage":null}`:            noUsage,
		`{"usage":"none"}`:               noUsage,
		`{"text":"usage"}`:               noUsage,
		`{"a":"usage"}`:                  noUsage,
		``:                               noUsage,
		`{"usage":{"prompt_tokens":-3}}`: noUsage,
	}
	for body, want := range tests {
		require.Equal(t, want, usageIn([]byte(body)), body)
	}
}

// What is read without encoding/json is what that reads.
func FuzzUsageRead(f *testing.F) {
	f.Add(`{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"audio_tokens":null,"cached_tokens":0}} ,"x":1}`)
	f.Add(`{ "input_tokens" : 0, "cache_read_input_tokens":12, "cache_creation_input_tokens": null,"output_tokens":3}`)
	f.Add(`{"prompt_tokens":1,"prompt_tokens":null,"prompt_tokens":{}}`)
	f.Add(`{"Prompt_tokens":1,"prompt_tokens_details":7,"input_tokens":012}`)
	f.Add(`{"input_tokens_details":{"cached_tokens":4},"total_tokens":99999999999999999999}`)
	f.Fuzz(func(t *testing.T, text string) {
		var quick, slow wireUsage
		if _, ok := quick.read([]byte(text), ""); !ok {
			return
		}
		require.NoError(t, json.NewDecoder(strings.NewReader(text)).Decode(&slow))
		require.Equal(t, slow.usage(), quick.usage())
	})
}

// A chunk that is read without encoding/json says what it says to that.
func FuzzChunkRead(f *testing.F) {
	for _, chunk := range usualChunks {
		f.Add(chunk)
	}
	f.Add(`{"choices":[{"index":0,"delta":{"content":"a","content":""},"finish_reason":"abort","Finish_reason":"stop"}],"error":null}`)
	f.Add(`{"choices":[{"delta":{"content":null,"audio":{"a":[1,true,false,"\\u0041"]}},"delta":{"refusal":[]}}],"choices":[]}`)
	f.Add(`{"object":"error","usage":{"prompt_tokens":1},"usage":null,"x":01,"y":-1.5e3,"z":"\x01"}`)
	f.Fuzz(func(t *testing.T, text string) { readsChunk(t, text) })
}

// readsChunk tells whether text is read without encoding/json, and checks that it
// then says the same to it.
func readsChunk(t *testing.T, text string) bool {
	c := chatChunk{Choices: make([]chatChoice, 2)}
	if !c.read([]byte(text)) {
		return false
	}
	var want chatChunk
	require.NoError(t, json.Unmarshal([]byte(text), &want), text)
	require.NotEqual(t, "error", want.Object, text)
	require.False(t, present(want.Error), text)
	require.Equal(t, want.Usage, c.Usage, text)
	require.Len(t, c.Choices, len(want.Choices), text)
	for i := range want.Choices {
		require.Equal(t, want.Choices[i], c.Choices[i], text)
	}
	return true
}

// Chunks with a member more, or a byte other than usual, are read the same.
func TestChunkReadOfUnusualChunks(t *testing.T) {
	members := []string{`"choices":[]`, `"choices":null`, `"usage":null`, `"usage":{"prompt_tokens":7}`, `"object":"error"`, `"object":"x"`, `"error":null`,
		`"error":"e"`, `"Error":"e"`, `"index":1`, `"index":-1`, `"index":1.0`, `"index":01`, `"index":"1"`, `"finish_reason":"abort"`, `"finish_reason":null`,
		`"finish_reason":"\u0061bort"`, `"FINISH_REASON":"abort"`, `"delta":null`, `"delta":{"content":"more"}`, `"delta":[]`, `"text":""`, `"text":{"a":[1,{}]}`,
		`"content":null`, `"content":[]`, `"refusal":"\x"`, `"tool_calls":[{}]`, `"role":1e3`, `"n":99999999999999999999`, `"":0`, `"a":tru`, `"a":nullx`}
	r := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 20000 {
		text := usualChunks[r.IntN(len(usualChunks))]
		if r.IntN(4) > 0 {
			from := strings.LastIndexAny(text[:1+r.IntN(len(text))], "{,") + 1
			text = text[:from] + members[r.IntN(len(members))] + "," + text[from:]
		}
		if r.IntN(4) == 0 {
			i := r.IntN(len(text))
			text = text[:i] + string(rune(r.IntN(0x80))) + text[i+r.IntN(2):]
		}
		if readsChunk(t, text) {
			read++
		}
	}
	require.Greater(t, read, 2000)
}

// As vLLM sends them, and OpenAI.
var usualChunks = []string{
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}`,
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"m","choices":[{"index":0,"delta":{"content":" w\n\"é\""},"logprobs":null,"finish_reason":null,"token_ids":null}]}`,
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"m","choices":[{"index":1,"delta":{"reasoning":"why","reasoning_content":null},"finish_reason":null}],"usage":null}`,
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"id":"c1","type":"function","index":0,"function":{"name":"f","arguments":"{\"a\": 1}"}}]},"logprobs":null,"finish_reason":null}]}`,
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"m","choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}`,
	`{ "id":"chatcmpl-1", "object":"chat.completion.chunk", "created":1694268190, "model":"m", "system_fingerprint":"fp", "choices":[], "usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0}} }`,
	`{"id":"cmpl-1","object":"text_completion","created":1694268190,"model":"m","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null,"stop_reason":null}]}`,
}

// The usual spellings need no encoding/json.
func TestChunkRead(t *testing.T) {
	var c chatChunk
	for _, chunk := range usualChunks {
		require.True(t, c.read([]byte(chunk)), chunk)
	}
	for _, other := range []string{`{"error":{"message":"m"}}`, `{"object":"error"}`, `{"choices":[{"index":0}]`, `{"Choices":[]}`, `[]`, `{} {}`, ``} {
		require.False(t, c.read([]byte(other)), other)
	}
}

// Events of the Responses API and of Anthropic's messages are read the same.
func FuzzTypedEventRead(f *testing.F) {
	for _, event := range usualEvents {
		f.Add(event)
	}
	f.Add(`{"type":"a","type":"response.completed","delta":{"stop_reason":"abort"},"delta":1}`)
	f.Add(`{"type":"error","Error":{},"message":"m","usage":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		var e, want typedEvent
		if e.read([]byte(text)) {
			require.NoError(t, json.Unmarshal([]byte(text), &want))
			require.Equal(t, want, e)
		}
	})
}

var usualEvents = []string{
	`{"content_index":0,"delta":" w\n\"é\"","item_id":"msg_1","logprobs":[],"output_index":0,"sequence_number":4,"type":"response.output_text.delta"}`,
	`{"type":"response.reasoning_text.delta","delta":"why","item_id":"1","output_index":0,"content_index":0,"sequence_number":5}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word"}}`,
	`{"type":"content_block_stop","index":0}`,
}

func TestTypedEventRead(t *testing.T) {
	var e typedEvent
	for _, event := range usualEvents {
		require.True(t, e.read([]byte(event)), event)
	}
	for _, other := range []string{
		`{"type":"error","error":{"message":"m"}}`, `{"type":"error","message":"m"}`, `{"type":"message_delta","delta":{},"usage":{"output_tokens":1}}`,
		`{"type":"response.completed","response":{}}`, `{"type":"a","type":"b"}`, `{"Type":"a"}`, `{"type":"a"`, `{"type":"a"} {}`,
	} {
		require.False(t, e.read([]byte(other)), other)
	}
}

// The usual spellings need no encoding/json.
func TestUsageRead(t *testing.T) {
	for _, text := range []string{
		`{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2,"prompt_tokens_details":null}`,
		`{"prompt_tokens":5,"completion_tokens_details":{"reasoning_tokens":1}, "prompt_tokens_details":{"cached_tokens":0}}`,
		`{"input_tokens":14,"output_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":416}`,
		`{"input_tokens":36,"input_tokens_details":{"cached_tokens":16,"input_tokens_per_turn":null},"output_tokens":2}`,
	} {
		var quick, slow wireUsage
		rest, ok := quick.read([]byte(text+" }"), "")
		require.True(t, ok, text)
		require.Equal(t, " }", string(rest))
		require.NoError(t, json.Unmarshal([]byte(text), &slow))
		require.Equal(t, slow, quick)
	}
}

// As recorded from vLLM 0.32: the first event has the whole prompt, the last one
// has it in parts.
func TestUsageOfMessages(t *testing.T) {
	j := judgeOf(canon.Messages, false, 1, nil)
	for _, event := range []string{
		`{"type":"message_start","message":{"usage":{"input_tokens":430,"output_tokens":0}}}`,
		`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":14,"output_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":416}}`,
		`{"type":"message_stop"}`,
	} {
		_, err := j.event([]byte(event))
		require.NoError(t, err)
	}
	require.Equal(t, usage{430, 416, 4}, j.usage())
}

func TestAborted(t *testing.T) {
	require.True(t, aborted([]byte(`{"choices":[{"finish_reason":"stop"},{"finish_reason" : "abort"}]}`)))
	require.False(t, aborted([]byte(`{"choices":[{"message":{"content":"\"finish_reason\":\"abort\""},"finish_reason":"stop"}]}`)))
	require.False(t, aborted(nil))
}

func TestMapReasoning(t *testing.T) {
	tests := map[string]string{
		`{"choices":[{"message":{"reasoning":"why","content":"x"}}]}`:                                                       `{"choices":[{"message":{"reasoning_content":"why","reasoning":"why","content":"x"}}]}`,
		`{"choices":[{"delta":{"reasoning": "a\"b" }}]}`:                                                                    `{"choices":[{"delta":{"reasoning_content":"a\"b","reasoning": "a\"b" }}]}`,
		`{"choices":[{"message":{"reasoning":"1"}},{"message":{"content":"\"reasoning\""}},{"message":{"reasoning":"2"}}]}`: `{"choices":[{"message":{"reasoning_content":"1","reasoning":"1"}},{"message":{"content":"\"reasoning\""}},{"message":{"reasoning_content":"2","reasoning":"2"}}]}`,
		`{"choices":[{"message":{"reasoning":"why","reasoning_content":null}}]}`:                                            `{"choices":[{"message":{"reasoning":"why","reasoning_content":"why"}}]}`,
		`{"choices":[{"message":{"reasoning":"why","reasoning_content":"kept"}}]}`:                                          `{"choices":[{"message":{"reasoning":"why","reasoning_content":"kept"}}]}`,
		`{"choices":[{"message":{"reasoning":null}}]}`:                                                                      `{"choices":[{"message":{"reasoning":null}}]}`,
		`{"reasoning":"elsewhere"}`:                                                                                         `{"reasoning":"elsewhere"}`,
		`"reasoning"`:                                                                                                       `"reasoning"`,
	}
	for body, want := range tests {
		require.Equal(t, want, string(mapReasoning([]byte(body))), body)
	}
}

// Whatever the text, mapping keeps it JSON and every other member's value.
func FuzzMapReasoning(f *testing.F) {
	f.Add(`{"choices":[{"message":{"reasoning":"why","content":"x"}}]}`)
	f.Add(`{"choices":[{"delta":{"reasoning":"why","reasoning_content":null}},{"message":{"reasoning":{"a":1}}}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		got := mapReasoning([]byte(body))
		if !json.Valid([]byte(body)) {
			return
		}
		require.True(t, json.Valid(got), "%s", got)
	})
}

// No sequence of events makes a judge panic, and a stream without an end mark
// is never complete.
func FuzzJudge(f *testing.F) {
	f.Add(`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`, "[DONE]")
	f.Add(`{"type":"message_start","message":{"usage":{"input_tokens":1}}}`, `{"type":"message_stop"}`)
	f.Add(`{"error":"text"}`, `{"type":"error","error":{"message":"m"}}`)
	f.Fuzz(func(t *testing.T, one, two string) {
		for _, api := range []canon.API{canon.Chat, canon.Responses} {
			j := judgeOf(api, true, 1, nil)
			last := false
			for _, event := range []string{one, two} {
				v, _ := j.event([]byte(event))
				last = last || v.last || v.failed != nil
			}
			if !last {
				require.Error(t, j.ended())
			}
		}
	})
}
