package canon

import (
	"bytes"
	"slices"
)

// schema writes the JSON Schema at i: its keywords sorted, the names under
// required sorted, and the schemas inside it likewise. Everything else keeps
// its order: what stands first in properties, enum or anyOf is what a model
// and a constrained decoder tend to produce first.
func (w *writer) schema(i uint32) {
	if !w.stable || w.kind(i) != kindObject {
		w.verbatim(i)
		return
	}
	base := w.collect(i)
	sortMembers(w.members[base:])
	at := uint32(len(w.out))
	w.out = append(w.out, '{')
	for k, end := base, len(w.members); k < end; k++ {
		if k > base {
			w.out = append(w.out, ',')
		}
		m := w.members[k]
		w.text(m.key)
		w.out = append(w.out, ':')
		switch string(m.name) {
		case "properties":
			w.schemaMap(m.val, w.sortProps)
		case "patternProperties", "$defs", "definitions", "dependentSchemas":
			w.schemaMap(m.val, false)
		case "anyOf", "oneOf", "allOf", "prefixItems", "items", "additionalItems", "contains",
			"additionalProperties", "propertyNames", "not", "if", "then", "else",
			"unevaluatedItems", "unevaluatedProperties", "contentSchema":
			w.schemaOrList(m.val)
		case "required":
			w.required(m.val)
		default:
			w.verbatim(m.val)
		}
	}
	w.out = append(w.out, '}')
	w.placed(i, at)
	w.members = w.members[:base]
}

// schemaOrList writes a schema, or a list of schemas in its order.
func (w *writer) schemaOrList(i uint32) {
	if w.kind(i) == kindArray {
		w.list(i, ruleSchema)
		return
	}
	w.value(i, ruleSchema)
}

// schemaMap writes an object whose members are schemas under names of the
// tool's author.
func (w *writer) schemaMap(i uint32, sorted bool) {
	if w.kind(i) != kindObject {
		w.verbatim(i)
		return
	}
	base := w.collect(i)
	if sorted {
		sortMembers(w.members[base:])
	}
	at := uint32(len(w.out))
	w.out = append(w.out, '{')
	for k, end := base, len(w.members); k < end; k++ {
		if k > base {
			w.out = append(w.out, ',')
		}
		w.member(w.members[k], ruleSchema)
	}
	w.out = append(w.out, '}')
	w.placed(i, at)
	w.members = w.members[:base]
}

// required writes the value of required, a set of names spelled as a list.
func (w *writer) required(i uint32) {
	if w.kind(i) != kindArray {
		w.verbatim(i)
		return
	}
	base := len(w.members)
	for k, end := i+1, w.nodes[i].aux; k < end; k = w.next(k) {
		if w.kind(k) != kindString {
			w.members = w.members[:base]
			w.verbatim(i)
			return
		}
		w.members = append(w.members, member{name: w.decoded(k), val: k})
	}
	names := w.members[base:]
	slices.SortStableFunc(names, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	at := uint32(len(w.out))
	w.out = append(w.out, '[')
	for k := range names {
		if k > 0 {
			w.out = append(w.out, ',')
		}
		w.text(names[k].val)
	}
	w.out = append(w.out, ']')
	w.placed(i, at)
	w.members = w.members[:base]
}
