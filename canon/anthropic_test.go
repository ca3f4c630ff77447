package canon_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// What vLLM makes of a request in Anthropic's shape (its
// entrypoints/anthropic/serving.py), and hence what is in the key: the effort of
// output_config, which it takes as reasoning_effort; not the format. Of thinking
// the type, which switches the template; not the budget. Not the block that
// Claude Code puts first in the system text, with a hash of each request in it.
func TestWhatIsInThePromptOfAnthropicsShape(t *testing.T) {
	const turn = `"messages":[{"role":"user","content":"a"}]}`
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"effort", `{"output_config":{"effort":"low"},` + turn, `{"output_config":{"effort":"high"},` + turn, false},
		{"an effort and none", `{"output_config":{"effort":"low"},` + turn, `{` + turn, false},
		{"a null effort and none", `{"output_config":{"effort":null},` + turn, `{` + turn, true},
		{"no settings", `{"output_config":null,"thinking":null,` + turn, `{` + turn, true},
		{"format", `{"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}},` + turn, `{"output_config":{"effort":"low"},` + turn, true},
		{"settings of no known form", `{"output_config":["low"],` + turn, `{"output_config":["high"],` + turn, false},
		{"thinking off and on", `{"thinking":{"type":"disabled"},` + turn, `{"thinking":{"type":"enabled"},` + turn, false},
		{"budget", `{"thinking":{"type":"enabled","budget_tokens":1024},` + turn, `{"thinking":{"budget_tokens":31999,"type":"enabled"},` + turn, true},
		{"attribution", `{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=a1b2c;"},{"type":"text","text":"You"}],` + turn,
			`{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=99f0e;"},{"type":"text","text":"You"}],` + turn, true},
		{"attribution alone", `{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=a1b2c;"}],` + turn,
			`{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=99f0e;"}],` + turn, true},
		{"attribution in a system message", `{"messages":[{"role":"system","content":[{"type":"text","text":"x-anthropic-billing-header: cch=a1b2c;"}]}]}`,
			`{"messages":[{"role":"system","content":[{"type":"text","text":"x-anthropic-billing-header: cch=99f0e;"}]}]}`, true},
		{"attribution in a string", `{"system":"x-anthropic-billing-header: cch=a1b2c;",` + turn, `{"system":"x-anthropic-billing-header: cch=99f0e;",` + turn, false},
		{"a user's block of that form", `{"messages":[{"role":"user","content":[{"type":"text","text":"x-anthropic-billing-header: 1"},{"type":"text","text":"b"}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"x-anthropic-billing-header: 2"},{"type":"text","text":"b"}]}]}`, false},
		{"text after the attribution", `{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=a1b2c;"},{"type":"text","text":"You"}],` + turn,
			`{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=a1b2c;"},{"type":"text","text":"I"}],` + turn, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, level := range levels {
				a, b := run(t, canon.Messages, level, c.a), run(t, canon.Messages, level, c.b)
				require.Equal(t, c.same, a.Root == b.Root, level)
				require.Equal(t, c.same, a.Boundaries[len(a.Boundaries)-1].Hash == b.Boundaries[len(b.Boundaries)-1].Hash, level)
			}
			d := canon.Diff(canon.Messages, []byte(c.a), []byte(c.b))
			require.Equal(t, c.same, d.Change == canon.Same, "%s", d)
		})
	}
}

// vLLM leaves out what these blocks say, and would read the same as a string.
func TestBlocksThatAreNotTheirString(t *testing.T) {
	for _, body := range []string{
		`{"system":[{"text":"x-anthropic-billing-header: cch=a1b2c;","type":"text"}],"messages":[]}`,
		`{"messages":[{"content":[{"text":"","type":"text"}],"role":"user"}]}`,
	} {
		require.Equal(t, body, string(run(t, canon.Messages, canon.Stable, body).Body))
	}
}
