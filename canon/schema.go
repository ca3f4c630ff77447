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
	w.sortMembers(base)
	at := uint32(len(w.out))
	w.out = append(w.out, '{')
	for k, end := base, len(w.members); k < end; k++ {
		if k > base {
			w.out = append(w.out, ',')
		}
		key := w.members[k].key()
		val := key + 1
		w.name(key)
		switch w.nodes[key].name {
		case nProperties:
			w.schemaMap(val, w.sortProps)
		case nPatternProperties, nDefs, nDefinitions, nDependentSchemas:
			w.schemaMap(val, false)
		case nAnyOf, nOneOf, nAllOf, nPrefixItems, nItems, nAdditionalItems, nContains,
			nAdditionalProperties, nPropertyNames, nNot, nIf, nThen, nElse,
			nUnevaluatedItems, nUnevaluatedProperties, nContentSchema:
			w.schemaOrList(val)
		case nRequired:
			w.required(val)
		default:
			w.verbatim(val)
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
	if sorted {
		base := w.collect(i)
		w.sortMembers(base)
		at := uint32(len(w.out))
		w.out = append(w.out, '{')
		for k, end := base, len(w.members); k < end; k++ {
			if k > base {
				w.out = append(w.out, ',')
			}
			key := w.members[k].key()
			w.name(key)
			w.value(key+1, ruleSchema)
		}
		w.out = append(w.out, '}')
		w.placed(i, at)
		w.members = w.members[:base]
		return
	}
	at := uint32(len(w.out))
	w.out = append(w.out, '{')
	for k, end := i+1, w.nodes[i].aux; k < end; {
		if k > i+1 {
			w.out = append(w.out, ',')
		}
		key := k
		k = w.next(k + 1)
		w.name(key)
		w.value(key+1, ruleSchema)
	}
	w.out = append(w.out, '}')
	w.placed(i, at)
}

// required writes the value of required, a set of names spelled as a list.
func (w *writer) required(i uint32) {
	if w.kind(i) != kindArray {
		w.verbatim(i)
		return
	}
	base := len(w.order)
	sorted := true
	for k, end := i+1, w.nodes[i].aux; k < end; k = w.next(k) {
		if w.kind(k) != kindString {
			w.order = w.order[:base]
			w.verbatim(i)
			return
		}
		if len(w.order) > base && sorted {
			sorted = bytes.Compare(w.decoded(w.order[len(w.order)-1]), w.decoded(k)) <= 0
		}
		w.order = append(w.order, k)
	}
	if !sorted {
		w.sortStrings(w.order[base:])
	}
	w.listInOrder(i, base, ruleVerbatim)
	w.order = w.order[:base]
}

// sortStrings sorts the nodes of strings by what they spell, each of which is
// decoded once.
func (w *writer) sortStrings(list []uint32) {
	type entry struct {
		text []byte
		node uint32
	}
	var space [32]entry
	entries := space[:0]
	for _, k := range list {
		entries = append(entries, entry{w.decoded(k), k})
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return bytes.Compare(a.text, b.text) })
	for i := range entries {
		list[i] = entries[i].node
	}
}
