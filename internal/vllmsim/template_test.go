package vllmsim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDumpJSONPrintsAsPython(t *testing.T) {
	// Expected values were printed by CPython's json.dumps(json.loads(s), ensure_ascii=False).
	for _, c := range []struct{ in, want string }{
		{`{"b":1,"a":[1,2,{"c":null}],"d":true}`, `{"b": 1, "a": [1, 2, {"c": null}], "d": true}`},
		{`{}`, `{}`},
		{`[]`, `[]`},
		{`{"a":1,"b":2,"a":3}`, `{"a": 3, "b": 2}`},
		{`"\u00e9\u003c\/\"\\\n\u0001\u007f"`, "\"é</\\\"\\\\\\n\\u0001\u007f\""},
		{`12345678901234567890123`, `12345678901234567890123`},
		{`-0`, `0`},
		{`1.0`, `1.0`},
		{`1.10`, `1.1`},
		{`1e2`, `100.0`},
		{`1E400`, `Infinity`},
		{`1e16`, `1e+16`},
		{`1e15`, `1000000000000000.0`},
		{`0.0001`, `0.0001`},
		{`0.00001`, `1e-05`},
		{`1.5e300`, `1.5e+300`},
		{`-0.0`, `-0.0`},
	} {
		got, err := dumpJSON(nil, []byte(c.in))
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, string(got))
	}
	for _, bad := range []string{``, `{`, `{"a"}`, `1 2`, `nul`, `[1,]`, `{"a":1}}`} {
		_, err := dumpJSON(nil, []byte(bad))
		require.Error(t, err, bad)
	}
}

const agentChat = `{
  "model": "m",
  "tools": [
    {"type": "function", "function": {"name": "find", "description": "Finds <things>", "parameters":
      {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]}}},
    {"type": "function", "function": {"name": "stop", "description": null, "parameters": {"type": "object"}}}
  ],
  "messages": [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Look & see"},
    {"role": "assistant", "content": null, "reasoning": "hm", "tool_calls": [
      {"id": "1", "type": "function", "function": {"name": "find", "arguments": "{\"q\": \"x\", \"n\": 1}"}},
      {"id": "2", "type": "function", "function": {"name": "find", "arguments": "{\"q\": \"y\"}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "one"},
    {"role": "tool", "tool_call_id": "2", "content": "two"}
  ]
}`

// The same conversation, written in ways that a real engine does not see.
const agentChatAgain = `{"temperature":0,"messages":[
 {"content":"Be brief.","role":"system"},
 {"role":"user","content":[{"type":"text","text":"Look \u0026 see","cache_control":{"type":"ephemeral"}}]},
 {"role":"assistant","reasoning_content":"hm","content":"","tool_calls":[
  {"function":{"arguments":"{\"q\":\"x\",\"n\":1}","name":"find"},"type":"function","id":"abc","index":0},
  {"function":{"arguments":" {\"q\":\"\\u0079\"}","name":"find"},"type":"function","id":"def"}]},
 {"role":"tool","content":"one","tool_call_id":"abc"},
 {"role":"tool","content":"two","tool_call_id":"def","name":"find"}],
 "tools":[{"function":{"description":"Finds \u003cthings\u003e","name":"find","parameters":
   {"type":"object","properties":{"q":{"type":"string"},"n":{"type":"integer"}},"required":["q"]}},"type":"function"},
  {"type":"function","function":{"parameters":{"type":"object"},"name":"stop"}}],"stream":true,"user":"me","n":3}`

func prompt(t *testing.T, body string) []uint32 {
	tokens, err := ChatPrompt([]byte(body))
	require.NoError(t, err)
	return tokens
}

func TestWhatTheModelDoesNotSee(t *testing.T) {
	require.Equal(t, prompt(t, agentChat), prompt(t, agentChatAgain))
}

func TestWhatTheModelSees(t *testing.T) {
	replace := func(old, new string) string {
		require.Contains(t, agentChat, old)
		return strings.Replace(agentChat, old, new, 1)
	}
	base := prompt(t, agentChat)
	seen := map[string]string{
		"order of schema keys":         replace(`"properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]`, `"required": ["q"], "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}`),
		"order of properties":          replace(`"q": {"type": "string"}, "n": {"type": "integer"}`, `"n": {"type": "integer"}, "q": {"type": "string"}`),
		"strict":                       replace(`"name": "find", "description"`, `"strict": false, "name": "find", "description"`),
		"order of arguments":           replace(`{\"q\": \"x\", \"n\": 1}`, `{\"n\": 1, \"q\": \"x\"}`),
		"number in arguments":          replace(`\"n\": 1}`, `\"n\": 1.0}`),
		"order of results":             replace(`"tool_call_id": "1", "content": "one"},`+"\n"+`    {"role": "tool", "tool_call_id": "2", "content": "two"}`, `"tool_call_id": "2", "content": "two"}, {"role": "tool", "tool_call_id": "1", "content": "one"}`),
		"reasoning":                    replace(`"reasoning": "hm", `, ``),
		"white space inside a content": replace(`"Be brief."`, `"Be brief. "`),
		"escape inside a content":      replace(`"Look & see"`, `"Look \\u0026 see"`),
		"thinking switched off":        replace(`"model": "m",`, `"model": "m", "chat_template_kwargs": {"enable_thinking": false},`),
		"documents":                    replace(`"model": "m",`, `"model": "m", "documents": [{"text": "x"}],`),
		"no generation prompt":         replace(`"model": "m",`, `"model": "m", "add_generation_prompt": false,`),
		"parts":                        replace(`"Look & see"`, `[{"type":"text","text":"Look "},{"type":"text","text":"& see"}]`),
		"an image":                     replace(`"Look & see"`, `[{"type":"text","text":"Look & see"},{"type":"image_url","image_url":{"url":"data:1"}}]`),
	}
	for name, body := range seen {
		require.NotEqual(t, base, prompt(t, body), name)
	}
	inert := map[string]string{
		"unknown template variable": replace(`"model": "m",`, `"model": "m", "chat_template_kwargs": {"x": 1},`),
		"documents null":            replace(`"model": "m",`, `"model": "m", "documents": null,`),
	}
	for name, body := range inert {
		require.Equal(t, base, prompt(t, body), name)
	}
	require.Equal(t, prompt(t, replace(`"{\"q\": \"y\"}"`, `"{\"q\": "`)), prompt(t, replace(`"{\"q\": \"y\"}"`, `"{}"`)))
}

// A conversation that goes on keeps the tokens it had, up to the generation
// prompt.
func TestConversationsGrowAtTheirEnd(t *testing.T) {
	before := prompt(t, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}`)
	after := prompt(t, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"user","content":"v"}]}`)
	require.Equal(t, before, after[:len(before)])
}

func TestBadConversations(t *testing.T) {
	for _, body := range []string{
		`{"messages":[{"role":"robot","content":"x"}]}`,
		`{"messages":[{"role":"user","content":7}]}`,
		`{"messages":[{"role":"user","content":[{"type":"hologram"}]}]}`,
		`{"messages":7}`,
	} {
		_, err := ChatPrompt([]byte(body))
		require.Error(t, err, body)
	}
}
