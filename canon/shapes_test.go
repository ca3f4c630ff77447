package canon_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

func TestRootOrder(t *testing.T) {
	for api, c := range map[canon.API][2]string{
		canon.Chat: {
			`{"temperature":1,"messages":[],"documents":[],"cache_salt":"s","tools":[{"type":"x"}],"zz":1,"functions":[],"model":"m","n":2}`,
			`{"model":"m","tools":[{"type":"x"}],"functions":[],"cache_salt":"s","documents":[],"messages":[],"n":2,"temperature":1,"zz":1}`,
		},
		canon.Completions: {
			`{"max_tokens":1,"suffix":"x","prompt":"p","echo":true,"model":"m"}`,
			`{"model":"m","suffix":"x","prompt":"p","echo":true,"max_tokens":1}`,
		},
		canon.Embeddings: {
			`{"user":null,"input":["b","a"],"encoding_format":"float","model":"m"}`,
			`{"model":"m","input":["b","a"],"encoding_format":"float","user":null}`,
		},
		canon.Responses: {
			`{"text":{"format":{"type":"text","schema":{"b":1,"a":2}}},"store":false,"input":"x","instructions":"i","reasoning":{"summary":"auto","effort":"low"},"model":"m"}`,
			`{"model":"m","instructions":"i","reasoning":{"effort":"low","summary":"auto"},"input":"x","store":false,"text":{"format":{"type":"text","schema":{"b":1,"a":2}}}}`,
		},
		canon.Messages: {
			`{"max_tokens":1,"messages":[],"system":"s","thinking":{"type":"enabled","budget_tokens":1},"model":"m","tools":[]}`,
			`{"model":"m","system":"s","thinking":{"budget_tokens":1,"type":"enabled"},"messages":[],"max_tokens":1}`,
		},
	} {
		require.Equal(t, c[1], string(run(t, api, canon.Stable, c[0]).Body), api)
	}
}

func TestResultReadsTheRoot(t *testing.T) {
	r := run(t, canon.Responses, canon.Stable, `{"model":"m\u002f1","stream":true,"previous_response_id":"resp_1","prompt_cache_key":"k","input":"x"}`)
	require.Equal(t, "m/1", r.Model)
	require.True(t, r.Stream)
	require.Equal(t, "resp_1", r.PreviousResponseID)
	require.Equal(t, "k", r.CacheKey)
	require.False(t, r.UsageAdded)
	require.Equal(t, canon.Responses, r.API)
}

func TestIncludeUsage(t *testing.T) {
	c := newCanon(t, canon.Options{IncludeUsage: true})
	for _, k := range []struct {
		api   canon.API
		body  string
		added bool
		want  string
	}{
		{canon.Chat, `{"messages":[],"stream":true}`, true, `{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`},
		{canon.Completions, `{"prompt":"","stream":true,"stream_options":null}`, true, `{"prompt":"","stream":true,"stream_options":{"include_usage":true}}`},
		{canon.Chat, `{"messages":[],"stream":true,"stream_options":{"x":1,"include_usage":false,"a":2}}`, true, `{"messages":[],"stream":true,"stream_options":{"a":2,"include_usage":true,"x":1}}`},
		{canon.Chat, `{"messages":[],"stream":true,"stream_options":{"x":1}}`, true, `{"messages":[],"stream":true,"stream_options":{"include_usage":true,"x":1}}`},
		{canon.Chat, `{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`, false, `{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`},
		{canon.Chat, `{"messages":[],"stream":false}`, false, `{"messages":[],"stream":false}`},
		{canon.Chat, `{"messages":[],"stream":true,"stream_options":7}`, false, `{"messages":[],"stream":true,"stream_options":7}`},
		{canon.Responses, `{"input":"","stream":true}`, false, `{"input":"","stream":true}`},
	} {
		r, err := c.Canonicalize(k.api, []byte(k.body))
		require.NoError(t, err)
		require.Equal(t, k.want, string(r.Body))
		require.Equal(t, k.added, r.UsageAdded, k.body)
	}
	r := run(t, canon.Chat, canon.Stable, `{"messages":[],"stream":true}`)
	require.False(t, r.UsageAdded)
}

func kinds(r canon.Result) []canon.BoundaryKind {
	var ks []canon.BoundaryKind
	for _, b := range r.Boundaries {
		ks = append(ks, b.Kind)
	}
	return ks
}

func TestBoundariesOfEachShape(t *testing.T) {
	h, tl, s, u := canon.HeadFields, canon.Tools, canon.System, canon.Turn
	for _, c := range []struct {
		api  canon.API
		body string
		want []canon.BoundaryKind
	}{
		{canon.Chat, `{}`, []canon.BoundaryKind{h}},
		{canon.Chat, `{"tools":[{"type":"x"}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}`, []canon.BoundaryKind{h, tl, s, u}},
		{canon.Chat, `{"messages":[{"role":"user","content":"u"}],"continue_final_message":true,"add_generation_prompt":false}`, []canon.BoundaryKind{h, u, canon.Tail}},
		{canon.Completions, `{"prompt":"p"}`, []canon.BoundaryKind{h, u}},
		{canon.Completions, `{"prompt":["p","q"]}`, []canon.BoundaryKind{h, u, u}},
		{canon.Completions, `{"prompt":[1,2,3]}`, []canon.BoundaryKind{h, u}},
		{canon.Completions, `{"prompt":[[1],[2]]}`, []canon.BoundaryKind{h, u, u}},
		{canon.Embeddings, `{"input":["a","b","c"]}`, []canon.BoundaryKind{h, u, u, u}},
		{canon.Responses, `{"instructions":"i","input":"x"}`, []canon.BoundaryKind{h, s, u}},
		{canon.Responses, `{"input":[{"role":"developer","content":"d"},{"role":"user","content":"x"},{"type":"reasoning","summary":[]}]}`, []canon.BoundaryKind{h, s, u, u}},
		{canon.Messages, `{"system":"s","messages":[{"role":"user","content":"u"}]}`, []canon.BoundaryKind{h, s, u}},
	} {
		require.Equal(t, c.want, kinds(run(t, c.api, canon.Stable, c.body)), c.body)
	}
}

// Spellings that the engine turns into one prompt have one key, whatever the
// body says.
func TestEqualPromptsOfOtherShapes(t *testing.T) {
	for _, c := range []struct {
		api  canon.API
		a, b string
	}{
		{canon.Responses, `{"input":"x"}`, `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}]}`},
		{canon.Responses, `{"input":[{"type":"reasoning","id":"rs_1","summary":[]}]}`, `{"input":[{"type":"reasoning","id":"rs_2","status":"completed","summary":[]}]}`},
		{canon.Chat, `{"messages":[{"role":"assistant","content":null}]}`, `{"messages":[{"role":"assistant"}]}`},
		{canon.Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","uuid":"u","image_url":{"url":"data:a"}}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"image_url","uuid":"u","image_url":null}]}]}`},
		{canon.Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:a","detail":"low"}}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:a"}}]}]}`},
		{canon.Chat, `{"messages":[],"add_generation_prompt":true,"add_special_tokens":false,"chat_template_kwargs":{}}`, `{"messages":[]}`},
		{canon.Completions, `{"prompt":"x","add_special_tokens":true}`, `{"prompt":"x"}`},
		{canon.Completions, `{"n":1,"prompt":["a",[1,2],[]]}`, `{ "prompt": ["a", [1, 2], [ ]] }`},
		{canon.Responses, `{"stream":true,"instructions":["a",{"role":"x"}],"input":"x"}`, `{"instructions":["a",{"role":"x"}],"input":"x"}`},
	} {
		require.Equal(t, run(t, c.api, canon.Stable, c.a).Boundaries, run(t, c.api, canon.Stable, c.b).Boundaries, c.a)
	}
	for _, c := range []struct {
		api  canon.API
		a, b string
	}{
		{canon.Chat, `{"messages":[{"role":"assistant","content":""}]}`, `{"messages":[{"role":"assistant","content":null}]}`},
		{canon.Chat, `{"messages":[{"role":"user","content":"ab"}]}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`},
		{canon.Chat, `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`, `{"messages":[{"role":"user","content":"ab"}]}`},
		{canon.Completions, `{"prompt":"x","add_special_tokens":false}`, `{"prompt":"x"}`},
		{canon.Responses, `{"input":"x","previous_response_id":"a"}`, `{"input":"x","previous_response_id":"b"}`},
		{canon.Messages, `{"messages":[],"system":"a"}`, `{"messages":[],"system":"b"}`},
		{canon.Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"a"}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"b"}]}]}`},
		{canon.Chat, `{"messages":[],"functions":[{"name":"a"}]}`, `{"messages":[],"functions":[{"name":"b"}]}`},
		{canon.Chat, `{"messages":[],"functions":[{"name":"a"}]}`, `{"messages":[],"tools":[{"name":"a"}]}`},
	} {
		a, b := run(t, c.api, canon.Stable, c.a), run(t, c.api, canon.Stable, c.b)
		require.NotEqual(t, a.Boundaries[len(a.Boundaries)-1].Hash, b.Boundaries[len(b.Boundaries)-1].Hash, c.a)
	}
}

// A list of token ids shares the boundaries of the lists it continues.
func TestTokenBoundaries(t *testing.T) {
	body := func(n int) string {
		b := []byte(`{"model":"m","prompt":[1000`)
		for range n {
			b = append(b, ", 1234"...)
		}
		return string(append(b, "]}"...))
	}
	short, long := run(t, canon.Completions, canon.Stable, body(300)), run(t, canon.Completions, canon.Stable, body(900))
	require.Equal(t, short.Boundaries[1], long.Boundaries[1])
	require.Equal(t, canon.Text, long.Boundaries[1].Kind)
	require.NotEqual(t, short.Root, long.Root)
}

func TestFixedPrefix(t *testing.T) {
	body := `{"model":"m","messages":[{"role":"system","content":"日本"},{"role":"user","content":[{"type":"text","text":"ab"},{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"\u003c"}]}]}`
	same := `{"model":"other","messages":[{"role":"user","content":"日本ab<"}]}`
	a, b := run(t, canon.Chat, canon.Stable, body), run(t, canon.Chat, canon.Stable, same)
	for n := range 7 {
		require.Equal(t, a.FixedPrefix(n, canon.Characters), b.FixedPrefix(n, canon.Characters), n)
	}
	require.NotEqual(t, a.FixedPrefix(4, canon.Characters), a.FixedPrefix(5, canon.Characters))
	require.Equal(t, a.FixedPrefix(5, canon.Characters), a.FixedPrefix(500, canon.Characters), "shorter prompts count whole")
	changed := run(t, canon.Chat, canon.Stable, `{"model":"m","messages":[{"role":"user","content":"日x"}]}`)
	require.Equal(t, a.FixedPrefix(1, canon.Characters), changed.FixedPrefix(1, canon.Characters))
	require.NotEqual(t, a.FixedPrefix(2, canon.Characters), changed.FixedPrefix(2, canon.Characters))

	const head = `{"model":"m"`
	require.Equal(t, a.FixedPrefix(len(head), canon.Bytes), changed.FixedPrefix(len(head), canon.Bytes))
	require.NotEqual(t, a.FixedPrefix(1024, canon.Bytes), changed.FixedPrefix(1024, canon.Bytes))
	require.NotEqual(t, a.FixedPrefix(1, canon.Bytes), a.FixedPrefix(1, canon.Characters))
	require.Equal(t, a.FixedPrefix(-1, canon.Bytes), a.FixedPrefix(0, canon.Bytes))

	raw := run(t, canon.Chat, canon.Stable, `{"a":1,"a":2}`)
	require.Equal(t, raw.FixedPrefix(3, canon.Bytes), raw.FixedPrefix(3, canon.Characters))
}

func TestNamesOfValues(t *testing.T) {
	for _, l := range levels {
		got, err := canon.ParseLevel(l.String())
		require.NoError(t, err)
		require.Equal(t, l, got)
	}
	_, err := canon.ParseLevel("loose")
	require.ErrorContains(t, err, "wire, stable, strong")
	require.Equal(t, "chat", canon.Chat.String())
	require.Equal(t, "API(99)", canon.API(99).String())
	require.Equal(t, "lone-surrogate", canon.LoneSurrogate.String())
	require.Equal(t, "text", canon.Text.String())
	require.Equal(t, "ok", canon.Diagnosis{}.String())
	require.Equal(t, "duplicate-name: second member of that name at a.b (byte 7)",
		canon.Diagnosis{Code: canon.DuplicateName, Offset: 7, Path: "a.b", Detail: "second member of that name"}.String())
}
