package client

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDelta(t *testing.T) {
	for name, tt := range map[string]struct {
		pieces []string
		want   string
	}{
		"nothing":   {nil, `{"role":"assistant","content":null}`},
		"empty":     {[]string{`{"role":"assistant","content":""}`, `{}`}, `{"role":"assistant","content":""}`},
		"text":      {[]string{`{"role":"assistant","content":""}`, `{"content":"a<\u003c"}`, `{"content":"\ud83d"}`, `{"content":"\ude00"}`}, `{"role":"assistant","content":"a<\u003c\ud83d\ude00"}`},
		"role each": {[]string{`{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"b"}`}, `{"role":"assistant","content":"ab"}`},
		"nulls":     {[]string{`{"role":"assistant","content":"a","tool_calls":null,"reasoning":null}`}, `{"role":"assistant","content":"a"}`},
		"calls from one chunk, without an index": {
			[]string{`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":""}}]}`},
			`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":""}}],"content":null}`},
		"calls counted from 1": {
			[]string{`{"role":"assistant","tool_calls":[{"index":1,"id":"a"}]}`, `{"tool_calls":[{"index":3,"id":"b"}]}`},
			`{"role":"assistant","tool_calls":[{"id":"a"},{"id":"b"}],"content":null}`},
		"no calls":   {[]string{`{"role":"assistant","content":"","tool_calls":[]}`}, `{"role":"assistant","content":""}`},
		"empty call": {[]string{`{"role":"assistant","content":"","tool_calls":[{"index":0}]}`}, `{"role":"assistant","content":""}`},
		"unknown members": {
			[]string{`{"role":"assistant","content":"a","sig":"x","list":[1],"o":{"t":"p","n":1.0}}`, `{"sig":"y","list":[2.0],"o":{"t":"q"}}`},
			`{"role":"assistant","content":"a","sig":"xy","list":[2.0],"o":{"t":"pq","n":1.0}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var d delta
			for _, p := range tt.pieces {
				require.NoError(t, d.add(json.RawMessage(p)))
			}
			got, err := d.message()
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
		})
	}
	for _, bad := range []string{`[]`, `7`, `{"tool_calls":[{"index":-1}]}`, `{"tool_calls":[{"index":100000}]}`, `{"tool_calls":[7]}`, `{"tool_calls":[{"index":"x"}]}`} {
		var d delta
		require.Error(t, d.add(json.RawMessage(bad)), bad)
	}
}

// Whatever an engine sends, what is put together of it is JSON and what go-openai
// can read, or an error.
func FuzzDelta(f *testing.F) {
	f.Add([]byte(`{"role":"assistant","content":"a"}`), []byte(`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`))
	f.Add([]byte(`{"content":"\ud83d","a":{"b":[1]}}`), []byte(`{"content":"\ude00","a":"x","tool_calls":{}}`))
	f.Add([]byte(`{"a":[1]}`), []byte(`{"a":"x","role":7}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if !json.Valid(a) || !json.Valid(b) {
			return
		}
		var d delta
		if d.add(a) != nil || d.add(b) != nil {
			return
		}
		message, err := d.message()
		if err != nil {
			return
		}
		require.True(t, json.Valid(message), "%s", message)
		var tr transcript
		_ = tr.add(message)
		decoded(message)
	})
}
