package canon_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// Names and roles of any length are somebody's text: a diagnosis, a finding and
// a divergence quote the beginning of them at most.
func TestLongNamesAreCut(t *testing.T) {
	long := strings.Repeat("name ", 2000)
	for _, body := range []string{
		`{"messages":[{"role":"user","@":1}]}`,
		`{"messages":[{"role":"@","content":"x"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"x","@":1}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"@"}]}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"@":1,"function":{"arguments":"{"}}]}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"@":1}}]}]}`,
		`{"tools":[{"function":{"name":"f","parameters":{"@":1}}}],"messages":[]}`,
		`{"tools":[{"function":{"name":"@"}},{"function":{"name":"@"}},{"function":{"name":"a"}}],"messages":[]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"@\":{}, \"@\":{}}"}}]}]}`,
		`{"@":{"b":1,"b":2},"messages":[]}`,
		`{"@":1,"@":2,"messages":[]}`,
		`{"model":"@","messages":[]}`,
		`{"chat_template":"@","messages":[]}`,
	} {
		a := []byte(strings.ReplaceAll(body, "@", long))
		b := []byte(strings.ReplaceAll(body, "@", long+"2"))
		c := []byte(strings.ReplaceAll(string(a), ":1", ":2"))
		r, err := canon.Canonicalize(canon.Chat, a)
		require.NoError(t, err)
		require.Less(t, len(r.Diagnosis.String()), 1000, body)
		for _, f := range canon.Lint(canon.Chat, a) {
			require.Less(t, len(f.String()), 1000, "%s: %s", body, f.Code)
		}
		require.Less(t, len(canon.Diff(canon.Chat, a, b).String()), 2000, body)
		require.Less(t, len(canon.Diff(canon.Chat, a, c).String()), 2000, body)
	}
}
