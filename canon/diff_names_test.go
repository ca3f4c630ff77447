package canon_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

func TestDiffOfEscapedNames(t *testing.T) {
	tool := func(properties string) string {
		return `{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":` + properties + `}}}],"messages":[]}`
	}
	said := func(arguments string) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"u"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":%q}}]},{"role":"tool","tool_call_id":"c","content":"x"}]}`, arguments)
	}
	for spelled, name := range map[string]string{
		`a\u003cb`: "a<b", `\\`: `\`, `\u59d3\u540d`: "姓名", `\ud83d\ude00`: "😀", `\n`: "\n", `\"`: `"`, `x\u0000`: "x\x00", `aaaaaaaaaaaaaaaaaaaaaaaa\/`: "aaaaaaaaaaaaaaaaaaaaaaaa/",
	} {
		for _, tt := range []struct {
			a, b   string
			change canon.Change
			path   string
		}{
			{tool(`{"` + spelled + `":{"type":"string"},"b":{}}`), tool(`{"` + spelled + `":{"type":"number"},"b":{}}`),
				canon.ToolSchema, "tools[0].function.parameters.properties." + name + ".type"},
			{tool(`{"` + spelled + `":{"type":"string"},"b":{}}`), tool(`{"b":{},"` + spelled + `":{"type":"string"}}`),
				canon.PropertyOrder, "tools[0].function.parameters.properties.b"},
			{said(`{"` + spelled + `":1,"b":2}`), said(`{"b":2,"` + spelled + `":1}`),
				canon.Remarshalled, "messages[1].tool_calls[0].function.arguments"},
			{said(`{"` + spelled + `":1,"b":2}`), said(`{"` + spelled + `":1,"b":3}`),
				canon.Rewritten, "messages[1].tool_calls[0].function.arguments"},
			{`{"model":"m","tools":{"` + spelled + `":42},"messages":[]}`, `{"model":"m","tools":{"` + spelled + `":43},"messages":[]}`,
				canon.ToolText, "tools." + name},
		} {
			d := canon.Diff(canon.Chat, []byte(tt.a), []byte(tt.b))
			require.Equal(t, tt.change, d.Change, "%s\n%s\n%s", tt.a, tt.b, d)
			require.Equal(t, tt.path, d.Path, "%s\n%s", tt.a, tt.b)
		}
	}
}

// Escapes in the names of a tool result count as those in its texts do.
func TestLintOfEscapedNames(t *testing.T) {
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"u"},{"role":"tool","tool_call_id":"c","content":%q}]}`, `{"\u59d3\u540d":"\\","b":"\u003c"}`)
	for _, f := range canon.Lint(canon.Chat, []byte(body)) {
		if f.Code == canon.FindEscapedText {
			require.Equal(t, "3 \\u escapes inside the text of a tool result", f.Detail)
			require.Equal(t, 2, f.Offset)
			return
		}
	}
	require.Fail(t, "nothing found")
}
