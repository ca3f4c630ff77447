package canon_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prefixwise/prefixwise/canon"
)

// change is one edit of a request that the engine sees. It says from where on:
// the first kind of boundary, and the first message, that must differ.
type change struct {
	name    string
	from    canon.BoundaryKind // for from < Turn: the first kind that differs
	message int                // for from == Turn: the message that differs
	apply   func() bool        // false: not applicable to this request
}

func edit(t *tree, name string) func() bool {
	return func() bool {
		v := t.get(name)
		if v == nil || v.kind != 's' {
			return false
		}
		v.text += "x"
		return true
	}
}

// changes lists the edits that are possible in a request.
func changes(request *tree) []change {
	cs := []change{
		{"model", canon.HeadFields, 0, edit(request, "model")},
		{"cache_salt", canon.HeadFields, 0, edit(request, "cache_salt")},
		{"reasoning_effort", canon.HeadFields, 0, func() bool { request.set("reasoning_effort", str("high")); return true }},
		{"chat_template_kwargs", canon.HeadFields, 0, func() bool {
			if request.get("chat_template_kwargs") != nil {
				return false
			}
			request.set("chat_template_kwargs", object("enable_thinking", boolean(false)))
			return true
		}},
		{"generation prompt", canon.Tail, 0, func() bool { request.set("add_generation_prompt", boolean(false)); return true }},
	}
	if ts := request.get("tools"); ts != nil {
		f := ts.at(0, "function")
		cs = append(cs,
			change{"tool name", canon.Tools, 0, edit(f, "name")},
			change{"tool description", canon.Tools, 0, edit(f, "description")},
			change{"schema", canon.Tools, 0, func() bool { f.get("parameters").set("minProperties", num("1")); return true }},
		)
	}
	for i, k := range request.get("messages").kids {
		m := k.val
		add := func(name string, f func() bool) {
			cs = append(cs, change{name, canon.Turn, i, f})
		}
		add("text", edit(m, "content"))
		add("name", edit(m, "name"))
		add("role", edit(m, "role"))
		add("call id", edit(m, "tool_call_id"))
		add("reasoning", edit(m, "reasoning"))
		if c := m.get("content"); c.kind == 'a' {
			add("part", edit(c.kids[0].val, "text"))
			add("image", func() bool { u := c.at(1, "image_url"); return u != nil && edit(u, "url")() })
			add("split", func() bool {
				c.kids = append(c.kids, branch{"", object("type", str("text"), "text", str(""))})
				return true
			})
		}
		if calls := m.get("tool_calls"); calls != nil && len(calls.kids) > 0 {
			add("arguments", edit(calls.at(0, "function"), "arguments"))
			add("function", edit(calls.at(0, "function"), "name"))
		}
	}
	return cs
}

func TestLawDistinctness(t *testing.T) {
	cs := perLevel(t)
	runs, seen := 0, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		level := anyLevel(rt)
		request := chat(rt)
		before := canonical(rt, cs[level], spell(rt, request))
		all := changes(request)
		c := rapid.SampledFrom(all).Draw(rt, "change")
		if !c.apply() {
			return
		}
		seen[c.name]++
		after := canonical(rt, cs[level], spell(rt, request))
		require.NotEqual(rt, string(before.Body), string(after.Body))
		unchanged := func(b canon.Boundary) bool {
			if c.from != canon.Turn {
				return b.Kind < c.from
			}
			return b.Message < c.message
		}
		old := map[uint64]bool{}
		for _, b := range before.Boundaries {
			old[b.Hash] = true
		}
		for i, b := range after.Boundaries {
			if unchanged(b) {
				require.Equal(rt, before.Boundaries[i], b, "%s: a boundary before the change moved", c.name)
			} else {
				require.False(rt, old[b.Hash], "%s: boundary %d is as before", c.name, i)
			}
		}
		if c.from == canon.HeadFields || c.from == canon.Tools {
			require.NotEqual(rt, before.Head, after.Head)
			require.NotEqual(rt, before.Root, after.Root)
		}
	})
	// With -short, rapid runs it 20 times, not 100.
	require.Greater(t, len(seen), min(8, runs/10), "the property hardly ran: %v", seen)
}

// What does not enter the prompt moves no boundary.
func TestLawNothingElseIsHashed(t *testing.T) {
	cs := perLevel(t)
	rapid.Check(t, func(rt *rapid.T) {
		level := anyLevel(rt)
		request := chat(rt)
		before := canonical(rt, cs[level], spell(rt, request))
		name := rapid.SampledFrom([]string{
			"top_p", "top_k", "min_p", "presence_penalty", "seed", "stop", "n", "max_tokens", "logprobs", "logit_bias", "stream",
			"stream_options", "user", "store", "service_tier", "parallel_tool_calls", "request_id", "session_id",
			"priority", "prompt_cache_key", "kv_transfer_params", "vllm_xargs", "structured_outputs", "echo", "prompt_logprobs",
		}).Draw(rt, "field")
		request.set(name, data(rt, 1))
		for _, k := range request.kids {
			if k.name == "temperature" {
				k.val.text = "0.7"
			}
		}
		after := canonical(rt, cs[level], spell(rt, request))
		if level == canon.Strong && name == "structured_outputs" {
			return // forbids sorting properties, which the prompt shows
		}
		require.Equal(rt, before.Boundaries, after.Boundaries)
	})
}

func TestTextBoundaries(t *testing.T) {
	ask := func(text string) canon.Result {
		return run(t, canon.Chat, canon.Stable, `{"model":"m","messages":[{"role":"user","content":`+quote(text)+`}]}`)
	}
	// Every escape counts as the one byte that it spells.
	long := strings.Repeat("line\n", 1000)
	r := ask(long)
	var depths []int
	for _, b := range r.Boundaries {
		if b.Kind == canon.Text {
			depths = append(depths, b.Offset-len("user"))
		}
	}
	require.Equal(t, []int{1024, 2048, 4096}, depths)
	require.Equal(t, len(long)+len("user"), r.Boundaries[len(r.Boundaries)-1].Offset)

	// A text that differs from byte 3,000 on shares the first two.
	other := ask(long[:3000] + "!" + long[3001:])
	require.Equal(t, r.Boundaries[:3], other.Boundaries[:3])
	require.NotEqual(t, r.Boundaries[3].Hash, other.Boundaries[3].Hash)

	// A role tells apart what the text alone would not.
	system := run(t, canon.Chat, canon.Stable, `{"model":"m","messages":[{"role":"system","content":`+quote(long)+`}]}`)
	require.NotEqual(t, r.Boundaries[1].Hash, system.Boundaries[1].Hash)
}

func TestRootCapsTheFirstUserText(t *testing.T) {
	ask := func(text string) canon.Result {
		return run(t, canon.Chat, canon.Stable, `{"model":"m","messages":[{"role":"user","content":`+quote(text)+`}]}`)
	}
	long := strings.Repeat("0123456789abcdef", 64<<10/16)
	require.Equal(t, ask(long).Root, ask(long+"more").Root)
	require.NotEqual(t, ask(long).Root, ask(long[:len(long)-1]+"!").Root)
	require.NotEqual(t, ask("short").Root, ask("shorter").Root)
	parts := func(a, b string) canon.Result {
		return run(t, canon.Chat, canon.Stable, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":`+
			quote(a)+`},{"type":"text","text":`+quote(b)+`}]}]}`)
	}
	require.Equal(t, parts("a", long).Root, parts("a", long+"more").Root, "the cap is on all text of the message")
}

func TestHeadAndRoot(t *testing.T) {
	ask := func(messages string) canon.Result {
		return run(t, canon.Chat, canon.Stable, `{"model":"m","messages":[`+messages+`]}`)
	}
	system := `{"role":"system","content":"s"},{"role":"developer","content":"d"}`
	one := ask(system + `,{"role":"user","content":"u"}`)
	two := ask(system + `,{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"user","content":"v"}`)
	other := ask(system + `,{"role":"user","content":"w"}`)
	require.Equal(t, one.Head, two.Head)
	require.Equal(t, one.Root, two.Root, "the root stays while the conversation grows")
	require.Equal(t, one.Head, other.Head)
	require.NotEqual(t, one.Root, other.Root)
	require.NotEqual(t, one.Head, one.Root)
	require.Equal(t, ask(system).Head, ask(system).Root)
	require.Equal(t, one.Boundaries[2].Hash, one.Head, "the head is the last leading message")
	// A system message in the middle is a turn.
	late := ask(`{"role":"user","content":"u"},{"role":"system","content":"s"}`)
	require.Equal(t, canon.Turn, late.Boundaries[len(late.Boundaries)-1].Kind)
}
