package canon_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// Pairs that differ in what the engine sees, in places where a member is
// looked at by its name.
func TestDistinctInOddPlaces(t *testing.T) {
	for _, c := range []struct {
		name string
		api  canon.API
		body string // with @ in the place of what differs
	}{
		{"a refusal with a uuid", canon.Chat, `{"messages":[{"role":"user","content":[{"type":"refusal","uuid":"1","refusal":"@"}]}]}`},
		{"a part without a type", canon.Chat, `{"messages":[{"role":"user","content":[{"image_url":"@","uuid":"1"}]}]}`},
		{"an image known by its uuid", canon.Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","uuid":"@","image_url":{"url":"u"}}]}]}`},
		{"a tool_result with a uuid", canon.Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","uuid":"1","content":"@"}]}]}`},
		{"the input of a tool_use", canon.Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"detail":"@"}}]}]}`},
		{"the source of an image", canon.Messages, `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"@"}}]}]}`},
		{"a reference to an item", canon.Responses, `{"input":[{"type":"item_reference","id":"@"}]}`},
		{"a reference without a type", canon.Responses, `{"input":[{"id":"@"}]}`},
		{"the generation prompt of an embedding", canon.Embeddings, `{"messages":[{"role":"user","content":"a"}],"add_generation_prompt":@}`},
		{"the last message of an embedding left open", canon.Embeddings, `{"messages":[{"role":"user","content":"a"}],"continue_final_message":@}`},
		{"how an embedding's media are read", canon.Embeddings, `{"input":"a","media_io_kwargs":{"a":@}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, level := range levels {
				a := run(t, c.api, level, strings.Replace(c.body, "@", "true", 1))
				b := run(t, c.api, level, strings.Replace(c.body, "@", "false", 1))
				require.Equal(t, canon.OK, a.Diagnosis.Code)
				require.NotEqual(t, a.Boundaries[len(a.Boundaries)-1].Hash, b.Boundaries[len(b.Boundaries)-1].Hash)
			}
			d := canon.Diff(c.api, []byte(strings.Replace(c.body, "@", "true", 1)), []byte(strings.Replace(c.body, "@", "false", 1)))
			require.NotContains(t, []canon.Change{canon.Same, canon.Respelled, canon.OutsidePrompt}, d.Change, "Diff sees no difference")
		})
	}
}

// The id of an ordinary item is the server's bookkeeping.
func TestIDsOfItemsAreNotInThePrompt(t *testing.T) {
	ask := func(id string) canon.Result {
		return run(t, canon.Responses, canon.Stable, `{"input":[{"role":"user","content":"a","id":"`+id+`"},{"type":"reasoning","summary":[],"id":"`+id+`"}]}`)
	}
	require.Equal(t, ask("a").Boundaries, ask("b").Boundaries)
}

// Only an assistant calls tools.
func TestResultsOfOtherRolesStay(t *testing.T) {
	r := run(t, canon.Chat, canon.Stable, `{"messages":[{"role":"tool","tool_calls":[{"id":"1"},{"id":"2"}]},{"role":"tool","tool_call_id":"2"},{"role":"tool","tool_call_id":"1"}]}`)
	require.Contains(t, string(r.Body), `{"role":"tool","tool_call_id":"2"},{"role":"tool","tool_call_id":"1"}`)
	r = run(t, canon.Messages, canon.Stable, `{"messages":[{"role":"user","content":[{"type":"tool_use","id":"1"},{"type":"tool_use","id":"2"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"2"},{"type":"tool_result","tool_use_id":"1"}]}]}`)
	require.Contains(t, string(r.Body), `[{"tool_use_id":"2","type":"tool_result"},{"tool_use_id":"1","type":"tool_result"}]`)
}

// A member named tools is a list of tools only where the API has tools.
func TestToolsCacheLeavesOtherAPIsAlone(t *testing.T) {
	tools := `[` + strings.TrimSuffix(strings.Repeat(`{"type":"z","b":1,"a":2},{"type":"a","b":2,"a":1},`, 20), ",") + `]`
	for _, api := range apis {
		c := newCanon(t, canon.Options{})
		first, err := c.Canonicalize(api, []byte(`{"tools":`+tools+`}`))
		require.NoError(t, err)
		for range 3 {
			again, err := c.Canonicalize(api, []byte(`{"tools":`+tools+`}`))
			require.NoError(t, err)
			require.Equal(t, string(first.Body), string(again.Body), api)
		}
	}
}
