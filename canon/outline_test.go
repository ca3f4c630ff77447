package canon_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prefixwise/prefixwise/canon"
)

func outline(t require.TestingT, c *canon.Canonicalizer, api canon.API, body string) canon.Outline {
	o, err := c.Outline(api, []byte(body))
	require.NoError(t, err)
	return o
}

// An outline counts a prompt as the boundaries do, and two outlines are equal
// exactly when the hashes of the whole prompts are.
func TestOutlineAgreesWithTheBoundaries(t *testing.T) {
	cs := perLevel(t)
	rapid.Check(t, func(rt *rapid.T) {
		level := anyLevel(rt)
		request := chat(rt)
		var outlines [2]canon.Outline
		var ends [2]canon.Boundary
		for i := range outlines {
			if i == 1 && maybe(rt) {
				request = chat(rt)
			}
			body := spell(rt, respell(rt, request, level))
			r := canonical(rt, cs[level], body)
			ends[i] = r.Boundaries[len(r.Boundaries)-1]
			outlines[i] = outline(rt, cs[level], canon.Chat, body)
			require.Equal(rt, ends[i].Offset, outlines[i].Size, "%s", r.Body)
		}
		require.Equal(rt, ends[0].Hash == ends[1].Hash, equalOutlines(outlines[0], outlines[1]))
	})
}

func equalOutlines(a, b canon.Outline) bool {
	if len(a.Segments) != len(b.Segments) {
		return false
	}
	for i := range a.Segments {
		if !a.Segments[i].Same(&b.Segments[i]) {
			return false
		}
	}
	return true
}

// Every API's prompt is counted as its boundaries count it.
func TestOutlineOfEachAPI(t *testing.T) {
	c := newCanon(t, canon.Options{})
	for _, tt := range []struct {
		api  canon.API
		body string
		last string // path of the last segment
	}{
		{canon.Completions, `{"model":"m","prompt":"a \u00e9 text","suffix":"s"}`, "prompt"},
		{canon.Completions, `{"model":"m","prompt":[1,2,3]}`, "prompt"},
		{canon.Completions, `{"model":"m","prompt":["a","b"]}`, "prompt[1]"},
		{canon.Embeddings, `{"model":"m","input":["a",[1,2]]}`, "input[1]"},
		{canon.Responses, `{"model":"m","instructions":"be kind","input":"hi","tools":[{"type":"function","name":"f","parameters":{}}]}`, "input"},
		{canon.Responses, `{"model":"m","input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"c","output":"done"}]}`, "input[2].output"},
		{canon.Messages, `{"model":"m","system":[{"type":"text","text":"be kind","cache_control":{"type":"ephemeral"}}],"messages":[
			{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/1"}},{"type":"text","text":"what?"}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"1"}]}]}]}`, "messages[2].content[0].content[0].text"},
		{canon.Chat, `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}}]}]}`, "messages[0].content[0].image_url.url"},
		{canon.Chat, `{"model":"m","documents":[{"text":"a"}],"messages":[7]}`, "messages[0]"},
	} {
		r, err := c.Canonicalize(tt.api, []byte(tt.body))
		require.NoError(t, err)
		require.Equal(t, canon.OK, r.Diagnosis.Code, tt.body)
		o := outline(t, c, tt.api, tt.body)
		require.Equal(t, r.Boundaries[len(r.Boundaries)-1].Offset, o.Size, tt.body)
		require.Equal(t, tt.last, o.Segments[len(o.Segments)-1].Path, tt.body)
	}
}

func TestOutlineOfAnUntouchedBody(t *testing.T) {
	c := newCanon(t, canon.Options{})
	o := outline(t, c, canon.Chat, `{"a":1,"a":2}`)
	require.Equal(t, canon.DuplicateName, o.Diagnosis.Code)
	require.Len(t, o.Segments, 1)
	require.Equal(t, canon.RawSegment, o.Segments[0].Kind)
	require.Equal(t, len(`{"a":1,"a":2}`), o.Size)
}
