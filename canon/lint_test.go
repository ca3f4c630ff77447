package canon_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestLintFindsEachFault(t *testing.T) {
	tests := []struct {
		name string
		body string
		code canon.FindingCode
		path string
		text string // what the finding's byte of the body starts with
	}{
		{"time", request("", `"Be kind.\nCurrent time: 2026-03-01 14:05:09."`, hello), canon.FindVolatileText, "messages[0].content", "2026-03-01 14"},
		{"time of day", request("", `"It is 2:05 PM."`, hello), canon.FindVolatileText, "messages[0].content", "2:05 PM"},
		{"date", request("", `"Today's date is 2026-03-01."`, hello), canon.FindVolatileText, "messages[0].content", "2026-03-01"},
		{"date in words", request("", `"Today is Sunday, March 1, 2026."`, hello), canon.FindVolatileText, "messages[0].content", "Sunday, March 1"},
		{"RFC 3339", request("", `"now 2026-03-01T14:05:09.123+01:00"`, hello), canon.FindVolatileText, "messages[0].content", "2026-03-01T"},
		{"epoch", request("", `"ts 1772370000"`, hello), canon.FindVolatileText, "messages[0].content", "1772370000"},
		{"UUID", request("", `"session 123e4567-e89b-12d3-a456-426614174000"`, hello), canon.FindVolatileText, "messages[0].content", "123e4567"},
		{"nonce", request("", `"x-anthropic-billing-header: cc_version=2.1.37; cc_entrypoint=cli; cch=a1b2c;\nYou are …"`, hello), canon.FindVolatileText, "messages[0].content", "a1b2c"},
		{"counter", request("", `"<total_tokens>123456 left</total_tokens>"`, hello), canon.FindVolatileText, "messages[0].content", "123456"},
		{"developer text", strings.Replace(request("", `"It is 14:05:09 now, so it is now 14:05:09"`, hello), `"system"`, `"developer"`, 1), canon.FindVolatileText, "messages[0].content", "14:05"},
		{"in a part", request("", `[{"type":"text","text":"Be kind."},{"type":"text","text":"It is now \u0031\u0034:05"}]`, hello), canon.FindVolatileText, "messages[0].content[1].text", `\u0031`},
		{"in a tool", request(strings.Replace(toolA, "finds", "Current date: 2026-03-01", 1), policy, hello), canon.FindVolatileText, "tools[0].function.description", "2026"},
		{"escapes in a result", request("", policy, hello+","+call+","+strings.Replace(result, `a<b`, `a\\u003cb`, 1)), canon.FindEscapedText, "messages[3].content", `\\u003c`},
		{"duplicate tool", request(toolA+","+toolA, policy, hello), canon.FindDuplicateTool, "tools[1].function.name", `a"`},
		{"tool order", request(toolB+","+toolA, policy, hello), canon.FindToolOrder, "tools[1]", toolA},
		{"arguments", request("", policy, hello+","+strings.Replace(call, `{\"x\":\"p\",\"y\":1}`, `{\"x\": }`, 1)), canon.FindArguments, "messages[2].tool_calls[0].function.arguments", `}`},
		{"arguments not an object", request("", policy, hello+","+strings.Replace(call, `{\"x\":\"p\",\"y\":1}`, `7`, 1)), canon.FindArguments, "messages[2].tool_calls[0].function.arguments", `7`},
		{"result order", request("", policy, hello+","+strings.Replace(call, `}]}`, `},{"id":"c2","type":"function","function":{"name":"b","arguments":"{}"}}]}`, 1)+`,{"role":"tool","tool_call_id":"c2","content":"2"},`+result), canon.FindResultOrder, "messages[3]", `{"role":"tool","tool_call_id":"c2"`},
		{"markers", request("", `[{"type":"text","text":"p","cache_control":{"type":"ephemeral"}}]`, hello), canon.FindCacheMarkers, "", "{"},
		{"reasoning", request("", policy, hello+","+call+","+result+","+strings.Replace(call, `"content"`, `"reasoning":"hm","content"`, 1)+","+result), canon.FindMissingReasoning, "messages[2]", call},
		{"untouched", `{"model":"m","model":"m","messages":[]}`, canon.FindUntouched, "model", `"model":"m","messages"`},
		{"wrong shape", `{"model":"m","messages":"x"}`, canon.FindUntouched, "messages", ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			findings := canon.Lint(canon.Chat, []byte(tt.body))
			require.Len(t, findings, 1, "%v", findings)
			f := findings[0]
			require.Equal(t, tt.code, f.Code)
			require.Equal(t, tt.path, f.Path)
			require.True(t, strings.HasPrefix(tt.body[f.Byte:], tt.text), "%s: %s", f, tt.body[f.Byte:])
			require.NotEmpty(t, f.Advice)
			require.Contains(t, f.String(), string(tt.code))
		})
	}
}

// What is mended by canonicalization is no longer found in a canonical body.
func TestLintMendedFindingsAreMended(t *testing.T) {
	body := request(toolB+","+toolA, `[{"type":"text","text":"p","cache_control":{"type":"ephemeral"}}]`,
		hello+","+strings.Replace(call, `}]}`, `},{"id":"c2","type":"function","function":{"name":"b","arguments":"{}"}}]}`, 1)+
			`,{"role":"tool","tool_call_id":"c2","content":"2"},`+result)
	before := canon.Lint(canon.Chat, []byte(body))
	require.Len(t, before, 3, "%v", before)
	for _, f := range before {
		require.True(t, f.Mended, "%s", f)
	}
	r, err := canon.Canonicalize(canon.Chat, []byte(body))
	require.NoError(t, err)
	require.Empty(t, canon.Lint(canon.Chat, r.Body))
}

// Texts that hold dates, numbers and ids for good.
func TestLintIsQuietOnOrdinaryText(t *testing.T) {
	for _, text := range []string{
		"Dates must be in the format YYYY-MM-DD, such as 2024-05-01.",
		"Use ISO 8601 times, e.g. 2024-05-01T10:00:00Z.",
		"The store is open from 9:00 to 17:30.",
		"Knowledge cutoff: 2024-06-01.",
		"Effective since 2023-01-15, refunds take 10 days.",
		"anthropic-version: 2023-06-01",
		"Released on March 3, 2021 under the MIT licence.",
		"Our phone number is 1800123456 and the code is 12345.",
		"Use colour #ff00aa or background: 00ff7f.",
		"commit=deadbeef12 is the last good one.",
		"There are 3 ways left to do it. Turn left at 5.",
		"1:2 is a ratio, 10:99 is no time, 2024-13-40 is no date.",
		"def f(x): return x[1:20]",
		"Order 4411223344 ships in 3 to 5 days; the limit is 50,000.",
	} {
		body := request(strings.Replace(toolA, `"finds"`, quoted(text), 1), quoted(text), hello)
		require.Empty(t, canon.Lint(canon.Chat, []byte(body)), text)
	}
}

func TestLintBoundsItsReport(t *testing.T) {
	bad := strings.Repeat(toolA+",", 500) + toolA
	findings := canon.Lint(canon.Chat, []byte(request(bad, policy, hello)))
	require.Len(t, findings, 100)
	long := canon.Lint(canon.Chat, []byte(request("", quoted(strings.Repeat("日本", 500)+" current time: 2026-03-01 14:05:09 "+strings.Repeat("日本", 500)), hello)))
	require.Len(t, long, 1)
	require.LessOrEqual(t, len(long[0].Excerpt), 80+2*len("…"))
	require.True(t, utf8.ValidString(long[0].Excerpt))
}

func TestLintOfOtherAPIs(t *testing.T) {
	f := canon.Lint(canon.Messages, []byte(`{"model":"m","system":"The time is 14:05:09 now.","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"{\"a\":\"\\u003c\"}","cache_control":{}}]}]}`))
	require.Len(t, f, 3)
	require.Equal(t, []canon.FindingCode{canon.FindVolatileText, canon.FindEscapedText, canon.FindCacheMarkers}, []canon.FindingCode{f[0].Code, f[1].Code, f[2].Code})
	f = canon.Lint(canon.Responses, []byte(`{"model":"m","instructions":"Now it is 14:05:09.","input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{"}]}`))
	require.Len(t, f, 2)
	require.Empty(t, canon.Lint(canon.Unknown, []byte(`{`)))
}

// 200 conversations full of flight dates, times, order numbers and JSON have
// one thing that would change in production: the time in the system text.
func TestLintOfTrajectories(t *testing.T) {
	for _, messages := range recordedSessions(t, 200) {
		list, err := json.Marshal(messages)
		require.NoError(t, err)
		findings := canon.Lint(canon.Chat, []byte(`{"model":"m","messages":`+string(list)+`}`))
		require.Len(t, findings, 1)
		require.Equal(t, canon.FindVolatileText, findings[0].Code)
		require.Contains(t, findings[0].Detail, "2024-05-15 15:00:00")
	}
}
