package canon_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

func TestMerge(t *testing.T) {
	raw := func(pairs ...string) map[string]json.RawMessage {
		m := map[string]json.RawMessage{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = json.RawMessage(pairs[i+1])
		}
		return m
	}
	for _, c := range []struct {
		body  string
		extra map[string]json.RawMessage
		want  string
	}{
		{`{}`, raw("a", "1"), `{"a":1}`},
		{` { } `, raw("a", "1"), ` { "a":1} `},
		{`{"x":1}`, raw("b", `"\u003c"`, "a", "[ 1 ]"), `{"x":1,"a":[ 1 ],"b":"\u003c"}`},
		{`{"x" : "old" , "y":2 }`, raw("x", `"new"`), `{"x" : "new" , "y":2 }`},
		{`{"\u0078":1}`, raw("x", "2"), `{"\u0078":2}`},
		{`{"x":1,"x":2}`, raw("x", "3"), `{"x":3,"x":3}`},
		{`{"x":{"y":1}}`, raw("y", "3", "x", "{}"), `{"x":{},"y":3}`},
		{`{}`, raw("a\"\n", "1"), `{"a\"\n":1}`},
		{`not read`, nil, `not read`},
	} {
		before := c.body
		got, err := canon.Merge([]byte(c.body), c.extra)
		require.NoError(t, err)
		require.Equal(t, c.want, string(got))
		require.Equal(t, before, c.body)
	}
	for _, c := range []struct {
		body  string
		extra map[string]json.RawMessage
		name  string
		code  canon.Code
	}{
		{`[]`, raw("a", "1"), "", canon.NotObject},
		{`{`, raw("a", "1"), "", canon.NotJSON},
		{`{}x`, raw("a", "1"), "", canon.TrailingData},
		{`{}`, raw("a", "tru"), "a", canon.NotJSON},
		{`{}`, raw("a", ""), "a", canon.NotJSON},
		{`{}`, raw("a", "1,\"b\":2"), "a", canon.TrailingData},
		{`{}`, raw("\xff", "1"), "\xff", canon.InvalidUTF8},
	} {
		_, err := canon.Merge([]byte(c.body), c.extra)
		require.ErrorIs(t, err, canon.ErrMerge)
		var e *canon.MergeError
		require.ErrorAs(t, err, &e)
		require.Equal(t, c.name, e.Name)
		require.Equal(t, c.code, e.Diagnosis.Code, c.body)
	}
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	got, err := canon.Merge([]byte(`{"a":`+deep+`}`), raw("b", deep))
	require.NoError(t, err, "Merge copies what canonicalization would not touch")
	require.True(t, json.Valid(got))
}
