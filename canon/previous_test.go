package canon_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// TestPrevious sends the turns of one conversation: each request must know up
// to where it is the one before.
func TestPrevious(t *testing.T) {
	for name, c := range map[string]struct {
		api   canon.API
		list  string   // name of the list in the body
		rest  string   // of the body
		turns []string // what each turn adds to the list
	}{
		"chat": {canon.Chat, "messages", `"tools":[{"type":"function","function":{"name":"f"}}]`, []string{
			`{"role":"system","content":"s"},{"role":"user","content":"one"}`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"b","content":"2"},{"role":"tool","tool_call_id":"a","content":"1"}`,
			`{"role":"assistant","content":"done"},{"role":"user","content":"two"}`,
		}},
		"responses": {canon.Responses, "input", `"instructions":"s"`, []string{
			`{"role":"user","content":"one"}`,
			`{"type":"reasoning","summary":[]},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"1"}`,
			`{"type":"message","role":"assistant","content":"done"},{"type":"message","role":"user","content":"two"}`,
		}},
		"messages": {canon.Messages, "messages", `"system":"s","max_tokens":9`, []string{
			`{"role":"user","content":"one"}`,
			`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"}]}`,
			`{"role":"assistant","content":"done"},{"role":"user","content":"two"}`,
		}},
	} {
		list, before := "", []canon.Boundary(nil)
		for n, turn := range c.turns {
			if n > 0 {
				list += ","
			}
			list += turn
			body := `{"model":"m",` + c.rest + `,"` + c.list + `":[` + list + `]}`
			require.True(t, json.Valid([]byte(body)), "%s", body)
			r, err := canon.Canonicalize(c.api, []byte(body))
			require.NoError(t, err)
			require.Zero(t, r.Diagnosis)
			require.Less(t, r.Previous, len(r.Boundaries))
			assert.Equal(t, before, append([]canon.Boundary(nil), r.Boundaries[:r.Previous]...), "%s, turn %d", name, n)
			before = r.Boundaries
		}
	}

	r, err := canon.Canonicalize(canon.Chat, []byte(`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}`))
	require.NoError(t, err)
	assert.Zero(t, r.Previous, "untouched")
}
