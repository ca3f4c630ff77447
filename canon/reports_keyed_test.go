package canon_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// Reports about what a key must have in it, and what it is not for.
var keyedReports = []struct {
	name string
	api  canon.API
	a, b string
	same bool // the prompts are one
}{
	{"35 tool calls", canon.Chat, said(call), said(strings.Replace(call, `"name":"a"`, `"name":"b"`, 1)), false},
	{"35 arguments of tool calls", canon.Chat, said(call), said(strings.Replace(call, `\"y\":1`, `\"y\":2`, 1)), false},
	{"39 the attribution that vLLM leaves out", canon.Messages,
		`{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=a1b2c;"},{"type":"text","text":"You help."}],"messages":[{"role":"user","content":"a"}]}`,
		`{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=99f0e;"},{"type":"text","text":"You help."}],"messages":[{"role":"user","content":"a"}]}`, true},
	{"48 reasoning lost", canon.Chat, said(thinking), said(answer), false},
	{"50 both names of reasoning", canon.Chat, said(thinking), said(strings.Replace(thinking, "reasoning_content", "reasoning", 1)), true},
	{"52 preserve_thinking", canon.Chat, said(thinking), strings.Replace(said(thinking), `"model"`, `"chat_template_kwargs":{"preserve_thinking":true},"model"`, 1), false},
	{"58 reasoning effort", canon.Chat, effort("low"), effort("high"), false},
	{"58 reasoning effort of Responses", canon.Responses, `{"reasoning":{"effort":"low"},"input":"x"}`, `{"reasoning":{"effort":"high"},"input":"x"}`, false},
	{"58 reasoning effort of Messages", canon.Messages, `{"output_config":{"effort":"low"},"messages":[]}`, `{"output_config":{"effort":"high"},"messages":[]}`, false},
	// One prompt and one place, but two answers: a hash is no key of a cache of
	// responses, and the bodies stay two.
	{"62 tool_choice", canon.Chat, strings.Replace(request(toolA, policy, hello), `"model"`, `"tool_choice":"none","model"`, 1),
		strings.Replace(request(toolA, policy, hello), `"model"`, `"tool_choice":"required","model"`, 1), true},
}

func TestReportsKeyed(t *testing.T) {
	for _, c := range keyedReports {
		t.Run(c.name, func(t *testing.T) {
			for _, level := range levels {
				a, b := run(t, c.api, level, c.a), run(t, c.api, level, c.b)
				require.NotEqual(t, string(a.Body), string(b.Body), "nothing that is asked for may be lost")
				require.Equal(t, c.same, a.Boundaries[len(a.Boundaries)-1].Hash == b.Boundaries[len(b.Boundaries)-1].Hash, level)
			}
		})
	}
}
