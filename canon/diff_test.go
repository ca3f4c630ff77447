package canon_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

const (
	toolA = `{"type":"function","function":{"name":"a","description":"finds","parameters":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"number"}},"required":["x","y"]}}}`
	toolB = `{"type":"function","function":{"name":"b","description":"puts","parameters":{"type":"object","properties":{"x":{"type":"string"}}}}}`
)

// request has placeholders for what the cases below change.
func request(tools, system, history string) string {
	body := `{"model":"m",`
	if tools != "" {
		body += `"tools":[` + tools + `],`
	}
	return body + `"messages":[{"role":"system","content":` + system + `},` + history + `]}`
}

const (
	hello    = `{"role":"user","content":"hello"}`
	answer   = `{"role":"assistant","content":"hi"}`
	next     = `{"role":"user","content":"next"}`
	thinking = `{"role":"assistant","reasoning_content":"I think","content":"hi"}`
	call     = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":"{\"x\":\"p\",\"y\":1}"}}]}`
	result   = `{"role":"tool","tool_call_id":"c1","content":"{\"v\": \"a<b\"}"}`
	policy   = `"You are careful."`
)

func TestDiffClasses(t *testing.T) {
	both := strings.Replace(call, `}]}`, `},{"id":"c2","type":"function","function":{"name":"b","arguments":"{}"}}]}`, 1)
	result2 := `{"role":"tool","tool_call_id":"c2","content":"two"}`
	tests := []struct {
		name   string
		a, b   string
		change canon.Change // after canonicalization
		sent   canon.Change // before
		path   string
		offset int
	}{
		{"same", request(toolA, policy, hello), request(toolA, policy, hello), canon.Same, canon.Same, "", 0},
		{"whitespace", request("", policy, hello), strings.Replace(request("", policy, hello), ",", ", ", 1), canon.Same, canon.Respelled, "", 0},
		{"escapes", request("", `"1 < 2"`, hello), request("", `"1 \u003c 2"`, hello), canon.Same, canon.Respelled, "", 0},
		{"one text part", request("", policy, hello), request("", `[{"type":"text","text":"You are careful."}]`, hello), canon.Same, canon.Respelled, "", 0},
		{"marker", request("", `[{"type":"text","text":"p","cache_control":{"type":"ephemeral"}}]`, hello), request("", `[{"type":"text","text":"p"}]`, hello), canon.Same, canon.Respelled, "", 0},
		{"sampling", request("", policy, hello), strings.Replace(request("", policy, hello), `"model"`, `"temperature":1,"model"`, 1), canon.Same, canon.OutsidePrompt, "", 0},
		{"appended", request("", policy, hello), request("", policy, hello+","+answer+","+next), canon.Appended, canon.Appended, "messages[2].role", 0},
		{"other conversation", request("", policy, hello), request("", policy, next), canon.OtherRoot, canon.OtherRoot, "messages[1].content", 0},
		{"branched", request("", policy, hello+","+answer+","+next), request("", policy, hello+","+answer+","+`{"role":"user","content":"not next"}`), canon.Branched, canon.Branched, "messages[3].content", 1},
		{"model", request("", policy, hello), strings.Replace(request("", policy, hello), `"m"`, `"n"`, 1), canon.ModelChange, canon.ModelChange, "model", 0},
		{"salt", request("", policy, hello), strings.Replace(request("", policy, hello), `"model"`, `"cache_salt":"s","model"`, 1), canon.SaltChange, canon.SaltChange, "cache_salt", 0},
		{"template", request("", policy, hello), strings.Replace(request("", policy, hello), `"model"`, `"chat_template_kwargs":{"enable_thinking":false},"model"`, 1), canon.TemplateChange, canon.TemplateChange, "chat_template_kwargs", 0},
		{"tool added", request(toolA, policy, hello), request(toolA+","+toolB, policy, hello), canon.ToolSet, canon.ToolSet, "tools[1]", 0},
		{"tool order", request(toolA+","+toolB, policy, hello), request(toolB+","+toolA, policy, hello), canon.Same, canon.ToolOrder, "", 0},
		{"keyword order", request(toolA, policy, hello), request(strings.Replace(toolA, `"type":"object",`, ``, 1)[:len(toolA)-len(`"type":"object",`)-3]+`,"type":"object"}}}`, policy, hello), canon.Same, canon.KeywordOrder, "", 0},
		{"required order", request(toolA, policy, hello), request(strings.Replace(toolA, `["x","y"]`, `["y","x"]`, 1), policy, hello), canon.Same, canon.KeywordOrder, "", 0},
		{"property order", request(toolA, policy, hello), request(strings.Replace(toolA, `"x":{"type":"string"},"y":{"type":"number"}`, `"y":{"type":"number"},"x":{"type":"string"}`, 1), policy, hello), canon.PropertyOrder, canon.PropertyOrder, "tools[0].function.parameters.properties.y", 0},
		{"tool schema", request(toolA, policy, hello), request(strings.Replace(toolA, `"number"`, `"integer"`, 1), policy, hello), canon.ToolSchema, canon.ToolSchema, "tools[0].function.parameters.properties.y.type", 0},
		{"tool text", request(toolA, policy, hello), request(strings.Replace(toolA, "finds", "fills", 1), policy, hello), canon.ToolText, canon.ToolText, "tools[0].function.description", 2},
		{"volatile tool", request(strings.Replace(toolA, "finds", "finds, as of 2026-03-01", 1), policy, hello), request(strings.Replace(toolA, "finds", "finds, as of 2026-03-02", 1), policy, hello), canon.VolatileChange, canon.VolatileChange, "tools[0].function.description", 22},
		{"volatile time", request("", `"It is 2026-03-01 14:05:09. Be kind."`, hello), request("", `"It is 2026-03-01 14:06:11. Be kind."`, hello), canon.VolatileChange, canon.VolatileChange, "messages[0].content", 21},
		{"volatile nonce", request("", `"x-billing: cch=a1b2c; Be kind."`, hello), request("", `"x-billing: cch=99f0e; Be kind."`, hello), canon.VolatileChange, canon.VolatileChange, "messages[0].content", 15},
		{"volatile counter in history", request("", policy, `{"role":"user","content":"go <total_tokens>1000 left</total_tokens>"}`), request("", policy, `{"role":"user","content":"go <total_tokens>900 left</total_tokens>"},`+answer+`,`+next), canon.VolatileChange, canon.VolatileChange, "messages[1].content", 17},
		{"volatile number", request("", `"You have read 7 files."`, hello), request("", `"You have read 8 files."`, hello), canon.VolatileChange, canon.VolatileChange, "messages[0].content", 14},
		{"system text", request("", policy, hello), request("", `"You are careless."`, hello), canon.SystemText, canon.SystemText, "messages[0].content", 12},
		{"date in the conversation", request("", policy, `{"role":"user","content":"fly on 2026-03-01"}`), request("", policy, `{"role":"user","content":"fly on 2026-04-01"}`), canon.OtherRoot, canon.OtherRoot, "messages[1].content", 13},
		{"lost reasoning", request("", policy, hello+","+thinking+","+next), request("", policy, hello+","+answer+","+next), canon.ReasoningLost, canon.ReasoningLost, "messages[2].reasoning_content", 0},
		{"other reasoning", request("", policy, hello+","+thinking+","+next), request("", policy, hello+","+strings.Replace(thinking, "I think", "I thought", 1)+","+next), canon.ReasoningOther, canon.ReasoningOther, "messages[2].reasoning_content", 4},
		{"re-marshalled arguments", request("", policy, hello+","+call+","+result), request("", policy, hello+","+strings.Replace(call, `{\"x\":\"p\",\"y\":1}`, `{\"y\": 1, \"x\": \"p\"}`, 1)+","+result), canon.Remarshalled, canon.Remarshalled, "messages[2].tool_calls[0].function.arguments", 2},
		{"re-marshalled result", request("", policy, hello+","+call+","+result+","+next), request("", policy, hello+","+call+","+strings.Replace(result, `{\"v\": `, `{\"v\":`, 1)+","+next), canon.Remarshalled, canon.Remarshalled, "messages[3].content", 5},
		{"escaped result", request("", policy, hello+","+call+","+result+","+next), request("", policy, hello+","+call+","+strings.Replace(result, `a<b`, `a\\u003cb`, 1)+","+next), canon.EscapedChange, canon.EscapedChange, "messages[3].content", 8},
		{"trimmed", request("", policy, hello+","+strings.Replace(answer, `hi`, `hi \n`, 1)+","+next), request("", policy, hello+","+answer+","+next), canon.Trimmed, canon.Trimmed, "messages[2].content", 2},
		{"parts", request("", policy, `{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}`), request("", policy, `{"role":"user","content":"onetwo"}`), canon.ShapeFlip, canon.ShapeFlip, "messages[1].content", 3},
		{"result order", request("", policy, hello+","+both+","+result+","+result2), request("", policy, hello+","+both+","+result2+","+result), canon.Same, canon.ResultOrder, "", 0},
		{"ids", request("", policy, hello+","+call+","+result+","+next), request("", policy, hello+","+strings.Replace(call, `"c1"`, `"c9"`, 1)+","+result+","+next), canon.IDChange, canon.IDChange, "messages[2].tool_calls[0].id", 1},
		{"truncated", request("", policy, hello+","+answer+","+next+","+call+","+result), request("", policy, next+","+call+","+result+","+answer), canon.Truncated, canon.Truncated, "messages[1].content", 0},
		{"inserted", request("", policy, hello+","+answer+","+next), request("", policy, hello+`,{"role":"user","content":"a reminder"},`+answer+","+next), canon.Inserted, canon.Inserted, "messages[2].role", 0},
		{"rewritten", request("", policy, hello+","+answer+","+next+","+call+","+result), request("", policy, hello+","+strings.Replace(answer, "hi", "[removed]", 1)+","+next+","+call+","+result+","+answer), canon.Rewritten, canon.Rewritten, "messages[2].content", 0},
		{"image", request("", policy, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"u1"}},{"type":"text","text":"?"}]},`+answer+","+next), request("", policy, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"u2"}},{"type":"text","text":"?"}]},`+answer+","+next), canon.OtherRoot, canon.OtherRoot, "messages[1].content[0].image_url.url", 1},
		{"tail", request("", policy, hello), strings.Replace(request("", policy, hello), `"model"`, `"add_generation_prompt":false,"model"`, 1), canon.TailChange, canon.TailChange, "add_generation_prompt", 0},
		{"untouched", request("", policy, hello), `{"model":"m","model":"m","messages":[]}`, canon.UntouchedBody, canon.UntouchedBody, "model", 13},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := canon.Diff(canon.Chat, []byte(tt.a), []byte(tt.b))
			require.Equal(t, tt.change.String(), d.Change.String(), "%s", d)
			require.Equal(t, tt.sent.String(), d.Sent.Change.String(), "%s", d)
			require.Equal(t, tt.path, d.Path, "%s", d)
			require.Equal(t, tt.offset, d.Offset, "%s", d)
			require.Equal(t, tt.a == tt.b, d.SameBytes)
			require.LessOrEqual(t, d.Shared+d.Lost, d.SizeA)
			require.LessOrEqual(t, d.Shared+d.Lost, d.SizeB)
			if d.Change.Natural() {
				require.Zero(t, d.Lost)
			}
			back := canon.Diff(canon.Chat, []byte(tt.b), []byte(tt.a))
			require.Equal(t, d.Shared, back.Shared, "a difference is at one place from both sides")
			require.Equal(t, d.Lost, back.Lost)
			_, err := json.Marshal(d)
			require.NoError(t, err)
		})
	}
}

func TestDiffOfCompletions(t *testing.T) {
	a := []byte(`{"model":"m","prompt":"once upon a time"}`)
	d := canon.Diff(canon.Completions, a, []byte(`{"model":"m","prompt":"once upon a time there was"}`))
	require.Equal(t, canon.Appended, d.Change)
	d = canon.Diff(canon.Completions, []byte(`{"model":"m","prompt":[1,2,31]}`), []byte(`{"model":"m","prompt":[1,2,32,4]}`))
	require.Equal(t, len("user")+len("1,2"), d.Shared)
}

// What precedes a difference and what follows it add up, and the offset into
// the prompt is that of the boundaries.
func TestDiffCountsThePrompt(t *testing.T) {
	system := strings.Repeat("All refunds need a receipt. ", 100)
	a := request("", `"`+system+`The time is 2026-03-01 14:05:09. Be brief."`, hello+","+answer+","+next)
	b := request("", `"`+system+`The time is 2026-03-01 14:07:30. Be brief."`, hello+","+answer+","+next)
	d := canon.Diff(canon.Chat, []byte(a), []byte(b))
	require.Equal(t, canon.VolatileChange, d.Change)
	at := len(system) + len("The time is 2026-03-01 14:0")
	require.Equal(t, at, d.Offset)
	require.Equal(t, len("system")+at, d.Shared)
	require.Equal(t, d.SizeB-d.Shared, d.Lost)
	// The time itself is the one thing that moving it cannot save.
	require.Equal(t, d.Lost-len("2026-03-01 14:05:09"), d.Winnable)
	require.Contains(t, d.String(), "messages[0].content")
	require.Contains(t, d.String(), "14:07:30")
	require.LessOrEqual(t, len(d.A), 80+2*len("…"))
	require.True(t, utf8.ValidString(d.A))
}

func TestDiffExcerptsAreOnRuneBorders(t *testing.T) {
	for n := range 8 {
		pad := strings.Repeat("x", n) + strings.Repeat("日本語", 40)
		d := canon.Diff(canon.Chat, []byte(request("", `"`+pad+`é`+pad+`"`, hello)), []byte(request("", `"`+pad+`è`+pad+`"`, hello)))
		require.Equal(t, len(pad), d.Offset, "not inside the rune")
		require.True(t, utf8.ValidString(d.A) && utf8.ValidString(d.B))
		require.NotContains(t, d.A+d.B, "\uFFFD")
	}
}
