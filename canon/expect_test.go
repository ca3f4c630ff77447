package canon_test

import (
	"slices"
	"sort"

	"github.com/prefixwise/prefixwise/canon"
)

// expected is the rules for chat written down a second time, over decoded
// trees and without regard to speed: the table of the design, line by line.
func expected(in *tree, level canon.Level) *tree {
	e := expecter{stable: level != canon.Wire, strong: level == canon.Strong}
	e.choice = in.get("tool_choice") != nil
	if f := in.get("response_format"); f != nil && f.kind != '0' {
		e.strong = false
	}
	out := e.object(in, func(name string, v *tree) (*tree, bool) {
		switch name {
		case "messages":
			return e.messages(v), true
		case "tools":
			if e.stable && (v.kind == '0' || v.kind == 'a' && len(v.kids) == 0 && !e.choice) {
				return nil, false
			}
			return e.tools(v), true
		case "cache_salt", "chat_template", "chat_template_kwargs", "documents", "reasoning_effort", "seed", "stop", "user", "temperature", "metadata":
			return v, !(e.stable && v.kind == '0')
		}
		return v, true
	})
	rank := func(name string) int {
		for i, group := range [][]string{
			{"model"}, {"tools"}, {"cache_salt", "chat_template", "chat_template_kwargs", "documents", "reasoning_effort"}, {"messages"},
		} {
			if slices.Contains(group, name) {
				return i
			}
		}
		return 9
	}
	sort.SliceStable(out.kids, func(i, j int) bool { return rank(out.kids[i].name) < rank(out.kids[j].name) })
	return out
}

type expecter struct{ stable, strong, choice bool }

// object sorts the members and applies f to each.
func (e expecter) object(in *tree, f func(string, *tree) (*tree, bool)) *tree {
	if in.kind != 'o' {
		return in
	}
	out := object()
	for _, k := range in.kids {
		if v, keep := f(k.name, k.val); keep {
			out.set(k.name, v)
		}
	}
	sort.SliceStable(out.kids, func(i, j int) bool { return out.kids[i].name < out.kids[j].name })
	return out
}

func (e expecter) flat(in *tree) *tree {
	return e.object(in, func(_ string, v *tree) (*tree, bool) { return v, true })
}

func (e expecter) messages(in *tree) *tree {
	out := list()
	for _, k := range in.kids {
		out.kids = append(out.kids, branch{"", e.message(k.val)})
	}
	for i, k := range out.kids {
		calls := k.val.get("tool_calls")
		if !e.stable || calls == nil || i+1+len(calls.kids) > len(out.kids) {
			continue
		}
		batch := out.kids[i+1 : i+1+len(calls.kids)]
		if slices.ContainsFunc(batch, func(r branch) bool { return r.val.get("tool_call_id") == nil }) {
			continue
		}
		sort.SliceStable(batch, func(a, b int) bool {
			at := func(r branch) int {
				return slices.IndexFunc(calls.kids, func(c branch) bool { return c.val.get("id").text == r.val.get("tool_call_id").text })
			}
			return at(batch[a]) < at(batch[b])
		})
	}
	return out
}

func (e expecter) message(in *tree) *tree {
	return e.object(in, func(name string, v *tree) (*tree, bool) {
		switch name {
		case "cache_control":
			return v, !e.stable
		case "name", "refusal", "audio", "function_call", "reasoning", "annotations":
			return v, !(e.stable && v.kind == '0')
		case "tool_calls":
			out := list()
			for _, k := range v.kids {
				out.kids = append(out.kids, branch{"", e.object(k.val, func(name string, v *tree) (*tree, bool) {
					if name == "function" {
						return e.flat(v), true
					}
					return v, true
				})})
			}
			return out, !(e.stable && len(v.kids) == 0)
		case "content":
			return e.content(v), true
		}
		return v, true
	})
}

func (e expecter) content(in *tree) *tree {
	if in.kind != 'a' {
		return in
	}
	out := list()
	for _, k := range in.kids {
		out.kids = append(out.kids, branch{"", e.object(k.val, func(name string, v *tree) (*tree, bool) {
			switch name {
			case "cache_control", "prompt_cache_breakpoint":
				return v, !e.stable
			case "image_url":
				return e.flat(v), true
			}
			return v, true
		})})
	}
	if e.stable && len(out.kids) == 1 {
		if p := out.kids[0].val; len(p.kids) == 2 && p.get("type") != nil && p.get("type").text == "text" {
			return p.get("text")
		}
	}
	return out
}

func (e expecter) tools(in *tree) *tree {
	out := list()
	for _, k := range in.kids {
		out.kids = append(out.kids, branch{"", e.object(k.val, func(name string, v *tree) (*tree, bool) {
			if name != "function" {
				return v, true
			}
			sorted := e.strong && (v.get("strict") == nil || v.get("strict").kind != 't')
			return e.object(v, func(name string, v *tree) (*tree, bool) {
				switch name {
				case "description", "strict":
					return v, !(e.stable && v.kind == '0')
				case "parameters":
					return e.schema(v, sorted), true
				}
				return v, true
			}), true
		})})
	}
	if e.stable {
		sort.SliceStable(out.kids, func(i, j int) bool {
			return out.kids[i].val.at("function", "name").text < out.kids[j].val.at("function", "name").text
		})
	}
	return out
}

func (e expecter) schema(in *tree, sorted bool) *tree {
	if !e.stable || in.kind != 'o' {
		return in
	}
	return e.object(in, func(name string, v *tree) (*tree, bool) {
		switch name {
		case "properties", "$defs":
			out := object()
			for _, k := range v.kids {
				out.set(k.name, e.schema(k.val, sorted))
			}
			if sorted && name == "properties" {
				out = e.flat(out)
			}
			return out, true
		case "anyOf":
			out := list()
			for _, k := range v.kids {
				out.kids = append(out.kids, branch{"", e.schema(k.val, sorted)})
			}
			return out, true
		case "required":
			out := v.clone()
			sort.SliceStable(out.kids, func(i, j int) bool { return out.kids[i].val.text < out.kids[j].val.text })
			return out, true
		}
		return v, true
	})
}
