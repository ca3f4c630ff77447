package canon_test

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/prefixwise/prefixwise/canon"
)

var words = rapid.SampledFrom([]string{
	"", "a", "hello", "line\nline", "1 < 2 && 3 > 2", `say "hi"`, `back\slash`, "naïve", "日本語", "😀", "tab\there",
	"\x01\x1f\x7f", "/path/to", "\u2028", " trailing ", `{"x": 1}`, "required", "type", "properties", "cache_control",
	"a longer text that goes on for a while, long enough that words of eight bytes are read many times over",
})

var lexemes = rapid.SampledFrom([]string{"0", "-0", "1.0", "1", "1e400", "9007199254740993", "12345678901234567890", "1E5", "0.10"})

func text(rt *rapid.T) *tree { return str(words.Draw(rt, "text")) }

// data is any JSON value: what canon must leave alone.
func data(rt *rapid.T, depth int) *tree {
	n := 7
	if depth == 0 {
		n = 5
	}
	switch rapid.IntRange(0, n).Draw(rt, "data") {
	case 0, 1:
		return text(rt)
	case 2:
		return num(lexemes.Draw(rt, "number"))
	case 3:
		return null()
	case 4, 5:
		return boolean(rapid.Bool().Draw(rt, "bool"))
	case 6:
		t := list()
		for range rapid.IntRange(0, 3).Draw(rt, "elements") {
			t.kids = append(t.kids, branch{"", data(rt, depth-1)})
		}
		return t
	default:
		t := object()
		for _, name := range names(rt, 3) {
			t.set(name, data(rt, depth-1))
		}
		return t
	}
}

// names are distinct member names, some of which mean something elsewhere.
func names(rt *rapid.T, most int) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"b", "a", "required", "type", "properties", "enum", "cache_control", "default", "é", "z\"", "ab", "$defs", "content", "strict",
	}), 0, most, rapid.ID[string]).Draw(rt, "names")
}

func maybe(rt *rapid.T) bool { return rapid.Bool().Draw(rt, "maybe") }

// seldom is true once in four times.
func seldom(rt *rapid.T) bool { return rapid.IntRange(0, 3).Draw(rt, "seldom") == 3 }

func schema(rt *rapid.T, depth int) *tree {
	t := object("type", str("object"))
	if maybe(rt) {
		t.set("description", text(rt))
	}
	if maybe(rt) {
		t.set("default", data(rt, 1))
	}
	if maybe(rt) {
		t.set("enum", list(text(rt), num("2"), text(rt)))
	}
	if depth == 0 {
		return t
	}
	for _, name := range []string{"properties", "$defs"} {
		if maybe(rt) {
			m := object()
			for _, n := range names(rt, 3) {
				m.set(n, schema(rt, depth-1))
			}
			t.set(name, m)
		}
	}
	if maybe(rt) {
		t.set("anyOf", list(schema(rt, depth-1), schema(rt, depth-1)))
	}
	if maybe(rt) {
		t.set("required", list(str("b"), str("a"), str("é")))
	}
	if maybe(rt) {
		t.set("x-vendor", data(rt, 2))
	}
	return t
}

func tool(rt *rapid.T, name string) *tree {
	f := object("name", str(name), "parameters", schema(rt, 2))
	if maybe(rt) {
		f.set("description", text(rt))
	}
	if maybe(rt) {
		f.set("strict", boolean(maybe(rt)))
	}
	return object("type", str("function"), "function", f)
}

func content(rt *rapid.T) *tree {
	switch rapid.IntRange(0, 4).Draw(rt, "content") {
	case 0:
		return list(object("type", str("text"), "text", text(rt)), object("type", str("text"), "text", text(rt)))
	case 1:
		return list(
			object("type", str("text"), "text", text(rt)),
			object("type", str("image_url"), "image_url", object("url", str("https://x/"+words.Draw(rt, "url")), "detail", str("low"))),
		)
	}
	return text(rt)
}

func message(rt *rapid.T, role string) *tree {
	m := object("role", str(role), "content", content(rt))
	if maybe(rt) {
		m.set("name", text(rt))
	}
	if seldom(rt) {
		m.set("x-unknown", data(rt, 2))
	}
	return m
}

// turns are a conversation whose every batch of calls is complete.
func turns(rt *rapid.T) []*tree {
	var all []*tree
	if maybe(rt) {
		all = append(all, message(rt, "system"))
	}
	if seldom(rt) {
		all = append(all, message(rt, "developer"))
	}
	for n := range rapid.IntRange(0, 4).Draw(rt, "turns") {
		all = append(all, message(rt, "user"))
		answer := message(rt, "assistant")
		if maybe(rt) {
			answer.set("reasoning", text(rt))
		}
		calls := rapid.IntRange(0, 3).Draw(rt, "calls")
		if calls > 0 {
			c := list()
			for k := range calls {
				c.kids = append(c.kids, branch{"", object("id", str(fmt.Sprintf("call_%d_%d", n, k)), "type", str("function"),
					"function", object("name", str("f"), "arguments", text(rt)))})
			}
			answer.set("tool_calls", c)
		}
		all = append(all, answer)
		for k := range calls {
			all = append(all, object("role", str("tool"), "tool_call_id", str(fmt.Sprintf("call_%d_%d", n, k)), "content", content(rt)))
		}
	}
	return all
}

func chat(rt *rapid.T) *tree {
	t := object("model", str("m"), "messages", list(turns(rt)...))
	if maybe(rt) {
		ts := list()
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"get", "put", "list", "é", "a\"b"}), 1, 4, rapid.ID[string]).Draw(rt, "tools") {
			ts.kids = append(ts.kids, branch{"", tool(rt, name)})
		}
		t.set("tools", ts)
		if maybe(rt) {
			t.set("tool_choice", str("auto"))
		}
	}
	for _, name := range []string{"chat_template_kwargs", "documents", "metadata", "x-unknown", "response_format", "cache_salt"} {
		if seldom(rt) {
			t.set(name, data(rt, 2))
		}
	}
	if maybe(rt) {
		t.set("temperature", num(lexemes.Draw(rt, "temperature")))
	}
	return t
}

// respell returns t in another shape that means the same at the level: what is
// typed is shuffled, and at Stable what may be dropped is added, one text part
// and its string are exchanged, tools, keywords and results move.
func respell(rt *rapid.T, t *tree, level canon.Level) *tree {
	t = t.clone()
	stable := level != canon.Wire
	flat := func(o *tree) {
		if o != nil && o.kind == 'o' {
			o.kids = shuffled(rt, o.kids)
		}
	}
	optional := func(o *tree, names ...string) {
		for _, name := range names {
			if stable && o.get(name) == nil && maybe(rt) {
				o.set(name, null())
			}
		}
	}
	messages := t.get("messages")
	if stable {
		for i := 0; i < len(messages.kids); i++ {
			n := 0
			if calls := messages.kids[i].val.get("tool_calls"); calls != nil {
				n = len(calls.kids)
			}
			batch := messages.kids[i+1 : i+1+n]
			copy(batch, shuffled(rt, batch))
		}
	}
	for _, k := range messages.kids {
		m := k.val
		for i, b := range m.kids {
			if b.name == "content" && b.val.kind == 's' && stable && maybe(rt) {
				part := object("type", str("text"), "text", b.val)
				if maybe(rt) {
					part.set("cache_control", object("type", str("ephemeral")))
				}
				m.kids[i].val = list(part)
			}
		}
		if c := m.get("content"); c.kind == 'a' {
			for _, p := range c.kids {
				flat(p.val.get("image_url"))
				if stable && maybe(rt) {
					p.val.set("prompt_cache_breakpoint", boolean(true))
				}
				flat(p.val)
			}
		}
		if calls := m.get("tool_calls"); calls != nil {
			for _, c := range calls.kids {
				flat(c.val.get("function"))
				flat(c.val)
			}
		} else if stable && maybe(rt) {
			m.set("tool_calls", list())
		}
		optional(m, "name", "refusal", "audio", "function_call", "reasoning", "annotations")
		if stable && maybe(rt) {
			m.set("cache_control", object("type", str("ephemeral")))
		}
		flat(m)
	}
	if ts := t.get("tools"); ts != nil {
		for _, k := range ts.kids {
			f := k.val.get("function")
			optional(f, "description", "strict")
			respellSchema(rt, f.get("parameters"), level, level == canon.Strong && !forcesOrder(t, f))
			flat(f)
			flat(k.val)
		}
		if stable {
			ts.kids = shuffled(rt, ts.kids)
		}
	} else if stable && maybe(rt) {
		t.set("tools", rapid.SampledFrom([]*tree{null(), list()}).Draw(rt, "no tools"))
	}
	optional(t, "cache_salt", "chat_template", "chat_template_kwargs", "documents", "reasoning_effort", "seed", "stop", "user")
	flat(t)
	return t
}

func forcesOrder(root, f *tree) bool {
	if s := f.get("strict"); s != nil && s.kind == 't' {
		return true
	}
	format := root.get("response_format")
	return format != nil && format.kind != '0'
}

func respellSchema(rt *rapid.T, s *tree, level canon.Level, properties bool) {
	if level == canon.Wire || s == nil {
		return
	}
	for _, k := range s.kids {
		switch k.name {
		case "properties", "$defs":
			for _, p := range k.val.kids {
				respellSchema(rt, p.val, level, properties)
			}
			if properties && k.name == "properties" {
				k.val.kids = shuffled(rt, k.val.kids)
			}
		case "anyOf":
			for _, p := range k.val.kids {
				respellSchema(rt, p.val, level, properties)
			}
		case "required":
			k.val.kids = shuffled(rt, k.val.kids)
		}
	}
	s.kids = shuffled(rt, s.kids)
}
