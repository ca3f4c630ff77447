package canon_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// Where tool_calls are no field of the API's, they are hashed as they are written,
// wherever they stood in the body.
func TestToolCallsOfAnItem(t *testing.T) {
	root := func(before, name string) uint64 {
		r, err := canon.Canonicalize(canon.Responses, []byte(before+
			`{"model":"m","input":[{"role":"user","content":"c","tool_calls":[{"id":"a","type":"function","function":{"name":"`+name+`","arguments":"{}"}}]}]}`))
		require.NoError(t, err)
		require.Equal(t, canon.OK, r.Diagnosis.Code)
		return r.Root
	}
	want := root("", "f")
	require.Equal(t, want, root("   ", "f"))
	require.Equal(t, want, root("", `\u0066`))
	require.NotEqual(t, want, root("", "g"))
}

// A message with two ids of a call hashes the same in any order of them.
func TestTwoIdsOfACall(t *testing.T) {
	root := func(ids string) uint64 {
		r, err := canon.Canonicalize(canon.Chat, []byte(`{"model":"m","messages":[{"role":"user","content":"c",`+ids+`}]}`))
		require.NoError(t, err)
		return r.Root
	}
	want := root(`"tool_call_id":"a","call_id":"b"`)
	require.Equal(t, want, root(`"call_id":"b","tool_call_id":"a"`))
	require.NotEqual(t, want, root(`"call_id":"a","tool_call_id":"b"`))
}
