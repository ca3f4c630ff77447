package canon_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// Requests that follow one another in the reports, whose prompts part for good:
// nothing but their producer can mend that. Diff says why they part; Lint says
// it of the second alone, where one request is enough to see it.
var toldReports = []struct {
	name   string
	a, b   string
	change canon.Change
	lint   canon.FindingCode // "" where it takes both requests
}{
	{"02 files in the system text in the order of a map", system("# SOUL.md\nKind.\n# RULES.md\nBrief."), system("# RULES.md\nBrief.\n# SOUL.md\nKind."), canon.SystemText, ""},
	{"05 a list of tools in the system text in the order of a map", system("Tools: build, test."), system("Tools: test, build."), canon.SystemText, ""},
	{"16 49 50 thoughts erased", said(thinking), said(answer), canon.ReasoningLost, ""},
	{"48 reasoning stripped from a turn with calls", said(thought, result, thought, result), said(thought, result, call, result), canon.ReasoningLost, canon.FindMissingReasoning},
	{"51 reasoning rebuilt from a summary", said(thinking), said(strings.Replace(thinking, "I think", "A summary", 1)), canon.ReasoningOther, ""},
	{"17 46 another choice of tools", request(toolA+","+toolB, policy, hello), request(toolB, policy, hello), canon.ToolSet, ""},
	{"21 24 equal requests that the engine prints in two ways", request(toolA, policy, hello), request(toolA, policy, hello), canon.Same, ""},
	{"27 a result marshalled anew", said(call, `{"role":"tool","tool_call_id":"c1","content":"{\"a\":1,\"b\":2}"}`), said(call, `{"role":"tool","tool_call_id":"c1","content":"{\"b\":2,\"a\":1}"}`), canon.Remarshalled, ""},
	{"29 escapes in the text of a result", said(call, result), said(call, strings.Replace(result, `a<b`, `a\\u003cb`, 1)), canon.EscapedChange, canon.FindEscapedText},
	{"30 arguments marshalled anew with sorted keys", said(strings.Replace(call, `{\"x\":\"p\",\"y\":1}`, `{\"y\":1,\"x\":\"p\"}`, 1)), said(call), canon.Remarshalled, ""},
	{"31 arguments compact and spaced", said(call), said(strings.Replace(call, `{\"x\":\"p\",\"y\":1}`, `{\"x\": \"p\", \"y\": 1}`, 1)), canon.Remarshalled, ""},
	{"34 arguments that are not JSON", said(call), said(strings.Replace(call, `,\"y\":1}`, ``, 1)), canon.Rewritten, canon.FindArguments},
	{"39 a nonce first", system("x-anthropic-billing-header: cc_version=2.1.37; cc_entrypoint=cli; cch=a1b2c;\nYou help."),
		system("x-anthropic-billing-header: cc_version=2.1.37; cc_entrypoint=cli; cch=99f0e;\nYou help."), canon.VolatileChange, canon.FindVolatileText},
	{"40 tokens left", system("<total_tokens>123456 left</total_tokens> You help."), system("<total_tokens>119841 left</total_tokens> You help."), canon.VolatileChange, canon.FindVolatileText},
	{"41 the time to the minute", system("Current date and time: 2026-03-01 14:05. You help."), system("Current date and time: 2026-03-01 14:06. You help."), canon.VolatileChange, canon.FindVolatileText},
	{"42 the time to the second", system("Current date and time: Sunday, March 1, 2026 at 2:05:09 PM. You help."), system("Current date and time: Sunday, March 1, 2026 at 2:05:31 PM. You help."), canon.VolatileChange, canon.FindVolatileText},
	{"43 a timestamp", system("The current date is 2026-03-01 14:05:09. You help."), system("The current date is 2026-03-01 14:05:44. You help."), canon.VolatileChange, canon.FindVolatileText},
	{"44 the date at midnight", system("Today's date: Sun Mar 01 2026. You help."), system("Today's date: Mon Mar 02 2026. You help."), canon.VolatileChange, canon.FindVolatileText},
	{"45 directory and date first", system("cwd: /home/u/p\nCurrent date: 2026-03-01\nYou help."), system("cwd: /home/u/p\nCurrent date: 2026-03-02\nYou help."), canon.VolatileChange, canon.FindVolatileText},
	{"46 the time first", system("The current time is 14:05. You help."), system("The current time is 14:07. You help."), canon.VolatileChange, canon.FindVolatileText},
	{"47 current_datetime", system("current_datetime: 2026-03-01T14:05:09Z. You help."), system("current_datetime: 2026-03-01T14:09:51Z. You help."), canon.VolatileChange, canon.FindVolatileText},
	{"52 a history that only grew, whose old reasoning the template drops", said(thinking), said(thinking, next, answer), canon.Appended, ""},
	{"55 text trimmed", said(strings.Replace(answer, "hi", `hi \n`, 1)), said(answer), canon.Trimmed, ""},
	{"56 random ids", said(call, result), said(strings.Replace(call, `"c1"`, `"8c41"`, 1), strings.Replace(result, `"c1"`, `"8c41"`, 1)), canon.IDChange, ""},
	{"58 another effort", effort("low"), effort("high"), canon.TemplateChange, ""},
	{"59 the oldest turns pruned", request("", policy, hello+","+answer+","+next+","+call+","+result), request("", policy, next+","+call+","+result+","+answer), canon.Truncated, ""},
	{"59 old results emptied", said(call, result, answer), said(call, strings.Replace(result, `{\"v\": \"a<b\"}`, `[cleared]`, 1), answer), canon.Rewritten, ""},
}

func system(text string) string { return request(toolA, quoted(text), hello) }

// said spells a request with what followed the first question, and another.
func said(turns ...string) string {
	return request(toolA, policy, hello+","+strings.Join(turns, ",")+","+next)
}

func effort(e string) string {
	return strings.Replace(request(toolA, policy, hello), `"model"`, `"reasoning_effort":"`+e+`","model"`, 1)
}

var thought = strings.Replace(call, `"content":null`, `"content":null,"reasoning_content":"I look"`, 1)

func TestReportsTold(t *testing.T) {
	for _, c := range toldReports {
		t.Run(c.name, func(t *testing.T) {
			d := canon.Diff(canon.Chat, []byte(c.a), []byte(c.b))
			require.Equal(t, c.change.String(), d.Change.String(), "%s", d)
			require.Equal(t, c.a == c.b, d.SameBytes)
			found := canon.Lint(canon.Chat, []byte(c.b))
			named := slices.ContainsFunc(found, func(f canon.Finding) bool { return f.Code == c.lint })
			require.Equal(t, c.lint != "", named, "%v", found)
			if c.lint == "" {
				require.Empty(t, found, "the table says that one request is not enough")
			}
		})
	}
}
