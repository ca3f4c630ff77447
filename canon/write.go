package canon

import (
	"bytes"
	"slices"
)

// member is a member of an object that is being written.
type member struct {
	name   []byte // decoded
	key    uint32 // node of the name; 0 when literal is set and there was none
	val    uint32
	rank   uint8  // order in the root; 0 elsewhere
	rename string // the name to write instead, if not empty
	lit    string // the value to write instead, if not empty
}

// writer writes the canonical form of a parsed document. As it writes a value,
// it points the value's node at the canonical bytes.
type writer struct {
	parser
	out       []byte
	members   []member    // of the objects that are open
	order     []uint32    // nodes of list elements, for lists that are reordered
	moved     []reordered // lists whose first parts move, in document order
	root      []member    // of the root, in the order written
	stable    bool        // at Stable and Strong
	sortProps bool        // at Strong: sort properties in schemas
	rename    bool        // write reasoning_content of assistants as reasoning
	addUsage  bool        // write stream_options.include_usage
	keepTools bool        // a tool_choice stands beside tools
	strong    bool        // at Strong
	rawTools  []byte      // source of the tools, if they were written anew
}

// value writes the value at i under a rule.
func (w *writer) value(i uint32, r rule) {
	k := w.kind(i)
	switch {
	case r == ruleVerbatim:
		w.verbatim(i)
	case r < ruleMessageList:
		if k == kindObject {
			w.object(i, r)
		} else {
			w.verbatim(i)
		}
	case k == kindObject && r == ruleSchema:
		w.schema(i)
	case k == kindObject && r == ruleStreamOptions:
		w.object(i, r)
	case k != kindArray:
		w.verbatim(i)
	case r == ruleMessageList:
		w.messages(i)
	case r == ruleItemList:
		w.items(i)
	case r == ruleContent:
		w.content(i)
	case r == ruleParts:
		w.list(i, rulePart)
	case r == ruleToolCalls:
		w.list(i, ruleToolCall)
	case r == ruleTools:
		w.tools(i)
	default:
		w.verbatim(i)
	}
}

// verbatim writes the value at i with its order kept.
func (w *writer) verbatim(i uint32) {
	n := &w.nodes[i]
	at := uint32(len(w.out))
	switch {
	case n.kind == kindString:
		w.text(i)
		return
	case n.kind == kindCached:
		w.out = append(w.out, w.entry.form(w.sortProps).bytes...)
	case n.kind < kindCached || n.flags&flagRespell == 0:
		w.out = append(w.out, w.src[n.start:n.end]...)
	case n.kind == kindArray:
		w.list(i, ruleVerbatim)
		return
	default:
		w.out = append(w.out, '{')
		for k, end := i+1, n.aux; k < end; {
			if k > i+1 {
				w.out = append(w.out, ',')
			}
			w.text(k)
			w.out = append(w.out, ':')
			val := k + 1
			k = w.next(val)
			w.verbatim(val)
		}
		w.out = append(w.out, '}')
	}
	n = &w.nodes[i]
	n.start, n.end = at, uint32(len(w.out))
}

// text writes the string at i in canonical spelling.
func (w *writer) text(i uint32) {
	n := &w.nodes[i]
	raw := w.src[n.start:n.end]
	w.out = append(w.out, '"')
	at := uint32(len(w.out))
	if n.flags&flagRespell != 0 {
		w.out = appendCanonical(w.out, raw)
	} else {
		w.out = append(w.out, raw...)
	}
	n.start, n.end = at, uint32(len(w.out))
	w.out = append(w.out, '"')
}

// list writes the array at i with each element under a rule.
func (w *writer) list(i uint32, elem rule) {
	at := uint32(len(w.out))
	w.out = append(w.out, '[')
	for k, end := i+1, w.nodes[i].aux; k < end; {
		if k > i+1 {
			w.out = append(w.out, ',')
		}
		val := k
		k = w.next(k)
		w.value(val, elem)
	}
	w.out = append(w.out, ']')
	w.placed(i, at)
}

// listInOrder writes the array at i with its elements in the given order, and
// takes them off w.order, where they are those from base on.
func (w *writer) listInOrder(i uint32, base int, elem rule) {
	at := uint32(len(w.out))
	w.out = append(w.out, '[')
	for k, end := base, len(w.order); k < end; k++ {
		if k > base {
			w.out = append(w.out, ',')
		}
		w.value(w.order[k], elem)
	}
	w.out = append(w.out, ']')
	w.placed(i, at)
}

// placed points the container at i at the bytes written since at.
func (w *writer) placed(i, at uint32) {
	n := &w.nodes[i]
	n.start, n.end = at, uint32(len(w.out))
}

// object writes the object at i with its members sorted by name.
func (w *writer) object(i uint32, r rule) {
	base := w.collect(i)
	switch r {
	case ruleMessage:
		w.renameReasoning(base)
	case ruleStreamOptions:
		w.includeUsage(base)
		r = ruleFlat
	}
	sortMembers(w.members[base:])
	w.memberList(i, base, r)
	w.members = w.members[:base]
}

// collect pushes the members of the object at i and returns where they start.
func (w *writer) collect(i uint32) int {
	base := len(w.members)
	for k, end := i+1, w.nodes[i].aux; k < end; k = w.next(k + 1) {
		w.members = append(w.members, member{name: w.decoded(k), key: k, val: k + 1})
	}
	return base
}

// memberList writes the members from base on as the object at i.
func (w *writer) memberList(i uint32, base int, r rule) {
	at := uint32(len(w.out))
	w.out = append(w.out, '{')
	first := true
	for k, end := base, len(w.members); k < end; k++ {
		m := w.members[k] // a copy: the stack may move
		f := shapes[r].find(m.name)
		under := ruleVerbatim
		if f != nil {
			under = f.rule
			if m.lit == "" && w.drops(m.val, f.drop) {
				w.nodes[m.val].flags |= flagDropped
				continue
			}
		}
		if !first {
			w.out = append(w.out, ',')
		}
		first = false
		w.member(m, under)
	}
	w.out = append(w.out, '}')
	w.placed(i, at)
}

// member writes one member, its value under a rule.
func (w *writer) member(m member, r rule) {
	switch {
	case m.key == 0:
		w.out = appendQuoted(w.out, string(m.name))
	case m.rename != "":
		at := uint32(len(w.out)) + 1
		w.out = appendQuoted(w.out, m.rename)
		n := &w.nodes[m.key]
		n.start, n.end, n.aux = at, uint32(len(w.out))-1, uint32(len(m.rename))
	default:
		w.text(m.key)
	}
	w.out = append(w.out, ':')
	if m.lit != "" {
		w.out = append(w.out, m.lit...)
		return
	}
	w.value(m.val, r)
}

// drops reports whether a member with the value at i is left out.
func (w *writer) drops(i uint32, d drop) bool {
	if !w.stable || d == 0 {
		return false
	}
	if d&always != 0 {
		return true
	}
	n := &w.nodes[i]
	switch n.kind {
	case kindNull:
		return d&whenNull != 0
	case kindArray:
		return n.aux == i+1 && (d&whenEmpty != 0 || d&whenNoTools != 0 && !w.keepTools)
	}
	return false
}

// sortMembers sorts by rank, then by name in byte order of its UTF-8. Names
// are distinct: the guard saw to it.
func sortMembers(ms []member) {
	if len(ms) > 12 {
		slices.SortFunc(ms, compareMembers)
		return
	}
	for i := 1; i < len(ms); i++ {
		for j := i; j > 0 && compareMembers(ms[j], ms[j-1]) < 0; j-- {
			ms[j], ms[j-1] = ms[j-1], ms[j]
		}
	}
}

func compareMembers(a, b member) int {
	if a.rank != b.rank {
		return int(a.rank) - int(b.rank)
	}
	return bytes.Compare(a.name, b.name)
}
