package canon_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prefixwise/prefixwise/canon"
)

// The APIs other than chat are generated in the form that Stable gives them, up
// to the order of members; respellOther then leaves that form.

func otherRequest(rt *rapid.T, api canon.API) *tree {
	t := object("model", str("m"))
	for _, name := range []string{"metadata", "x-unknown", "cache_salt", "temperature"} {
		if seldom(rt) {
			t.set(name, kept(data(rt, 2)))
		}
	}
	switch api {
	case canon.Completions:
		if maybe(rt) {
			t.set("suffix", text(rt))
		}
		return t.set("prompt", inputs(rt))
	case canon.Embeddings:
		return t.set("input", inputs(rt))
	case canon.Responses:
		if maybe(rt) {
			t.set("instructions", text(rt))
		}
		if maybe(rt) {
			t.set("reasoning", object("effort", str("low"), "summary", text(rt)))
		}
		t.set("text", object("format", data(rt, 2)))
		if maybe(rt) {
			t.set("tools", inlineTools(rt, "parameters", "type", str("function")))
		}
		if maybe(rt) {
			return t.set("input", text(rt))
		}
		return t.set("input", responseItems(rt))
	default:
		if maybe(rt) {
			t.set("system", blocks(rt))
		}
		if maybe(rt) {
			t.set("thinking", object("type", str("enabled"), "budget_tokens", num("1024")))
			t.set("output_config", object("effort", str("low"), "format", data(rt, 2)))
		}
		if maybe(rt) {
			t.set("tools", inlineTools(rt, "input_schema"))
		}
		return t.set("messages", anthropicTurns(rt))
	}
}

// kept returns a value that is not null: a null at the root may be left out.
func kept(v *tree) *tree {
	if v.kind == '0' {
		return str("null")
	}
	return v
}

func inputs(rt *rapid.T) *tree {
	tokens := list(num("1"), num("20"), num("300"))
	return rapid.SampledFrom([]*tree{text(rt), list(text(rt), text(rt)), tokens, list(tokens, list(num("7")), text(rt))}).Draw(rt, "input")
}

func inlineTools(rt *rapid.T, parameters string, more ...any) *tree {
	ts := list()
	for _, name := range []string{"a\"b", "get", "put", "é"} {
		if maybe(rt) {
			t := object(more...).set("name", str(name)).set(parameters, expecter{stable: true}.schema(schema(rt, 2), false))
			if maybe(rt) {
				t.set("description", text(rt))
			}
			ts.kids = append(ts.kids, branch{"", t})
		}
	}
	if len(ts.kids) == 0 {
		ts.kids = append(ts.kids, branch{"", object(more...).set("name", str("f"))})
	}
	return ts
}

func responseItems(rt *rapid.T) *tree {
	all := list()
	add := func(item *tree) { all.kids = append(all.kids, branch{"", item}) }
	for n := range rapid.IntRange(1, 3).Draw(rt, "turns") {
		if maybe(rt) {
			add(object("role", str("user"), "content", text(rt)))
		} else {
			add(object("role", str("user"), "content", list(object("type", str("input_text"), "text", text(rt)))))
		}
		if maybe(rt) {
			add(object("type", str("reasoning"), "id", str("rs"), "summary", list(object("type", str("summary_text"), "text", text(rt)))))
		}
		calls := rapid.IntRange(0, 3).Draw(rt, "calls")
		for k := range calls {
			add(object("type", str("function_call"), "call_id", str(fmt.Sprintf("%d-%d", n, k)), "name", str("f"), "arguments", text(rt)))
		}
		for k := range calls {
			add(object("type", str("function_call_output"), "call_id", str(fmt.Sprintf("%d-%d", n, k)), "output", text(rt)))
		}
		add(object("role", str("assistant"), "content", text(rt)))
	}
	return all
}

// blocks are content of Anthropic's shape: a text, or more than one block.
func blocks(rt *rapid.T) *tree {
	if maybe(rt) {
		return str("x" + words.Draw(rt, "text")) // an empty block is not its string
	}
	return list(object("type", str("text"), "text", text(rt)), object("type", str("text"), "text", text(rt)))
}

func anthropicTurns(rt *rapid.T) *tree {
	all := list()
	add := func(role string, content *tree) {
		all.kids = append(all.kids, branch{"", object("role", str(role), "content", content)})
	}
	for n := range rapid.IntRange(1, 3).Draw(rt, "turns") {
		add("user", blocks(rt))
		calls, results := list(), list()
		for k := range rapid.IntRange(2, 4).Draw(rt, "calls") {
			id := str(fmt.Sprintf("%d-%d", n, k))
			calls.kids = append(calls.kids, branch{"", object("type", str("tool_use"), "id", id, "name", str("f"), "input", data(rt, 2))})
			results.kids = append(results.kids, branch{"", object("type", str("tool_result"), "tool_use_id", id, "content", blocks(rt))})
		}
		add("assistant", calls)
		if maybe(rt) {
			results.kids = append(results.kids, branch{"", object("type", str("text"), "text", text(rt))})
		}
		add("user", results)
		add("assistant", blocks(rt))
	}
	return all
}

// optionals are members of the root whose null says the same as nothing.
var optionals = map[canon.API][]string{
	canon.Completions: {"cache_salt", "suffix", "stop", "user"},
	canon.Responses:   {"cache_salt", "tools", "instructions", "reasoning", "user"},
	canon.Messages:    {"cache_salt", "tools", "system", "thinking", "output_config", "metadata"},
}

// respellOther returns t in another shape that means the same at the level.
func respellOther(rt *rapid.T, t *tree, api canon.API, level canon.Level) *tree {
	r := respeller{rt: rt, api: api, stable: level != canon.Wire && api != canon.Embeddings}
	t = t.clone()
	if ts := t.get("tools"); ts != nil {
		properties := level == canon.Strong && api == canon.Messages && t.get("output_config") == nil
		for _, k := range ts.kids {
			respellSchema(rt, k.val.get("parameters"), level, false) // strict by default
			respellSchema(rt, k.val.get("input_schema"), level, properties)
			r.marked(k.val)
		}
		r.shuffle(ts.kids)
	}
	for i, k := range t.kids {
		switch {
		case k.name == "reasoning" || k.name == "thinking" || k.name == "output_config":
			k.val.kids = shuffled(rt, k.val.kids)
		case k.name == "system":
			t.kids[i].val = r.blocks(k.val)
		case k.name == "messages" || k.name == "input" && api == canon.Responses:
			r.turns(k.val.kids)
		}
	}
	if r.stable {
		for _, name := range optionals[api] {
			if t.get(name) == nil && maybe(rt) {
				t.set(name, null())
			}
		}
	}
	t.kids = shuffled(rt, t.kids)
	return t
}

type respeller struct {
	rt     *rapid.T
	api    canon.API
	stable bool
}

// shuffle puts into a random order what Stable sorts.
func (r respeller) shuffle(kids []branch) {
	if r.stable {
		copy(kids, shuffled(r.rt, kids))
	}
}

// marked gives a typed object another order and maybe a cache marker.
func (r respeller) marked(o *tree) {
	if r.stable && maybe(r.rt) {
		o.set("cache_control", object("type", str("ephemeral")))
	}
	o.kids = shuffled(r.rt, o.kids)
}

// turns respells messages of Anthropic's shape or the items of Responses.
func (r respeller) turns(kids []branch) {
	is := func(k branch, typ string) bool { t := k.val.get("type"); return t != nil && t.text == typ }
	run := func(kids []branch, typ string) []branch {
		n := slices.IndexFunc(kids, func(k branch) bool { return !is(k, typ) })
		if n < 0 {
			n = len(kids)
		}
		return kids[:n]
	}
	for i := range kids {
		if i > 0 && is(kids[i-1], "function_call") {
			r.shuffle(run(kids[i:], "function_call_output"))
		}
		m := kids[i].val
		for k, b := range m.kids {
			if b.name == "content" {
				r.shuffle(run(b.val.kids, "tool_result"))
				m.kids[k].val = r.blocks(b.val)
			}
		}
		r.marked(m)
	}
}

// blocks respells content, of which Stable writes a single text as a string in
// Anthropic's shape.
func (r respeller) blocks(c *tree) *tree {
	if c.kind == 's' && c.text != "" && r.stable && r.api == canon.Messages && maybe(r.rt) {
		c = list(object("type", str("text"), "text", c))
	}
	if c.kind == 'a' {
		for _, k := range c.kids {
			r.marked(k.val)
		}
	}
	return c
}

// Whatever the spelling, there is one canonical form, and it says what was
// asked: the request as it was generated, up to the order of members.
func TestLawOfOtherAPIs(t *testing.T) {
	cs := perLevel(t)
	rapid.Check(t, func(rt *rapid.T) {
		api := rapid.SampledFrom(apis[1:]).Draw(rt, "api")
		level := anyLevel(rt)
		request := otherRequest(rt, api)
		ask := func() canon.Result {
			body := spell(rt, respellOther(rt, request, api, level))
			r, err := cs[level].Canonicalize(api, []byte(body))
			require.NoError(rt, err)
			require.Equal(rt, canon.OK, r.Diagnosis.Code, "%s: %s", r.Diagnosis, body)
			return r
		}
		a, b := ask(), ask()
		require.Equal(rt, string(a.Body), string(b.Body))
		require.Equal(rt, a.Boundaries, b.Boundaries)
		require.Equal(rt, a.Root, b.Root)
		got, err := decode(a.Body)
		require.NoError(rt, err)
		require.Equal(rt, request.sorted().String(), got.sorted().String())
		for _, name := range []string{"metadata", "x-unknown", "text"} { // order and all
			if v := request.get(name); v != nil {
				require.Equal(rt, v.String(), got.get(name).String())
			}
		}
	})
}
