package middleware

import (
	"encoding/json"
	"fmt"
	"math"
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
