package canon

import (
	"bytes"
	"slices"
)

// tools writes a list of tools, sorted by type and name. Tools that share
// both keep their order. A list that holds anything but objects is not a list
// of tools and keeps its order too.
func (w *writer) tools(i uint32) {
	base := len(w.order)
	whole := true
	for k, end := i+1, w.nodes[i].aux; k < end; k = w.next(k) {
		w.order = append(w.order, k)
		whole = whole && w.kind(k) == kindObject
	}
	if w.stable && whole {
		w.sortTools(w.order[base:])
	}
	at := uint32(len(w.out))
	w.out = append(w.out, '[')
	for k, end := base, len(w.order); k < end; k++ {
		if k > base {
			w.out = append(w.out, ',')
		}
		w.tool(w.order[k])
	}
	w.out = append(w.out, ']')
	w.placed(i, at)
	w.order = w.order[:base]
}

func (w *writer) sortTools(list []uint32) {
	type key struct {
		typ, name []byte
		node      uint32
	}
	var space [64]key
	keys := space[:0]
	sorted := true
	for _, t := range list {
		k := key{node: t, typ: w.stringOf(t, nType), name: w.stringOf(t, nName)}
		if f := w.find(t, nFunction); f != 0 {
			if name := w.stringOf(f, nName); name != nil {
				k.name = name
			}
		}
		keys = append(keys, k)
	}
	compare := func(a, b key) int {
		if c := bytes.Compare(a.typ, b.typ); c != 0 {
			return c
		}
		return bytes.Compare(a.name, b.name)
	}
	for i := 1; i < len(keys); i++ {
		sorted = sorted && compare(keys[i-1], keys[i]) <= 0
	}
	if sorted {
		return
	}
	slices.SortStableFunc(keys, compare)
	for i := range keys {
		list[i] = keys[i].node
	}
}

// stringOf returns the text of the member of the object at i with that name,
// or nil when it has no such string.
func (w *writer) stringOf(i uint32, name nameID) []byte {
	if v := w.find(i, name); v != 0 && w.kind(v) == kindString {
		return w.decoded(v)
	}
	return nil
}

// tool writes one tool. Properties are left alone in a tool with strict: its
// arguments are decoded under a grammar that follows their order.
func (w *writer) tool(i uint32) {
	sort := w.sortProps
	if sort {
		strict := w.find(i, nStrict)
		if f := w.find(i, nFunction); f != 0 && w.find(f, nStrict) != 0 {
			strict = w.find(f, nStrict)
		}
		switch {
		case strict == 0 || w.kind(strict) == kindNull:
			w.sortProps = w.api != Responses // where strict is the default
		default:
			w.sortProps = w.kind(strict) == kindFalse
		}
	}
	w.value(i, ruleTool)
	w.sortProps = sort
}
