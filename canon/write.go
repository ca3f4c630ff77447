package canon

import (
	"bytes"
	"cmp"
	"slices"
)

// member is a member of an object that is being written: the node of its name
// in the lower half, zero for one that the writer adds, and its place in the
// order in the upper half, a rank in the root and a nameRank. Most members are
// sorted by comparing numbers.
type member uint64

func (m member) key() uint32   { return uint32(m) }
func (m member) order() uint32 { return uint32(m >> 32) }

// id returns the name of a member whose name a rule knows.
func (m member) id() nameID { return nameID(m >> 33) }

// rootShift is where the rank in the root stands, above any nameRank.
const rootShift = 32 + 16

func newMember(key uint32, nameRank uint64) member { return member(nameRank<<32 | uint64(key)) }

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
	strong    bool        // at Strong
	sortProps bool        // at Strong: sort properties in schemas
	rename    bool        // write reasoning_content of assistants as reasoning
	addUsage  bool        // write stream_options.include_usage
	keepTools bool        // a tool_choice stands beside tools
	rawTools  []byte      // source of the tools, if they were written anew
}

// value writes the value at i under a rule.
func (w *writer) value(i uint32, r rule) {
	k := w.nodes[i].kind
	if k == kindString { // whatever the rule
		w.text(i)
		return
	}
	if r == ruleVerbatim {
		w.verbatim(i)
		return
	}
	switch {
	case k == kindObject:
		switch {
		case r < ruleMessageList || r == ruleStreamOptions:
			w.object(i, r)
		case r == ruleSchema:
			w.schema(i)
		default:
			w.verbatim(i)
		}
	case k != kindArray:
		w.verbatim(i)
	case r == ruleMessageList:
		w.messages(i)
	case r == ruleItemList:
		w.items(i)
	case r == ruleContent:
		w.content(i)
	case r == ruleInputs && !w.isTokens(i):
		w.list(i, ruleVerbatim)
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
			w.name(k)
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
	at := uint32(len(w.out)) + 1
	if n.flags&flagRespell == 0 {
		w.copy(n.start-1, n.end+1) // with its quotes
	} else {
		w.respell(n)
	}
	n.start, n.end = at, uint32(len(w.out))-1
}

// respell writes a string of which some escapes are not canonical: those alone
// are written anew, unless there are too many to have them noted.
func (w *writer) respell(n *node) {
	if len(w.odd) == keepNodes && n.end > w.odd[keepNodes-1].end {
		w.out = append(w.out, '"')
		w.out = appendCanonical(w.out, w.src[n.start:n.end])
		w.out = append(w.out, '"')
		return
	}
	out, from := w.out, n.start-1 // with its quotes
	first, _ := slices.BinarySearchFunc(w.odd, n.start, func(e oddEscape, at uint32) int { return cmp.Compare(e.start, at) })
	for _, e := range w.odd[first:] {
		if e.start >= n.end {
			break
		}
		out = append(out, w.src[from:e.start]...)
		out = appendEscaped(out, e.text)
		from = e.end
	}
	w.out = append(out, w.src[from:n.end+1]...)
}

// short is up to which length a span is copied as a block of fixed size, for
// which no loop is entered: most names and many values.
const short = 16

// copy writes a span of the source as it is.
func (w *writer) copy(from, to uint32) {
	src := w.src[from:]
	n, at := int(to-from), len(w.out)
	if n <= short && len(src) >= short && cap(w.out)-at >= short {
		w.out = w.out[:at+short]
		*(*[short]byte)(w.out[at:]) = [short]byte(src)
		w.out = w.out[:at+n]
		return
	}
	w.out = append(w.out, src[:n]...)
}

// name writes the member name at k and the colon after it.
func (w *writer) name(k uint32) {
	n := &w.nodes[k]
	at := uint32(len(w.out)) + 1
	switch {
	case n.flags&flagArena != 0:
		w.out = appendQuoted(w.out, w.arena[n.start:n.end])
		n.flags &^= flagArena
		n.start, n.end = at, uint32(len(w.out))-1
		w.out = append(w.out, ':')
	case w.src[n.end+1] == ':': // at once, with its quotes and the colon
		w.copy(n.start-1, n.end+2)
		n.start, n.end = at, uint32(len(w.out))-2
	default:
		w.out = append(w.out, w.src[n.start-1:n.end+1]...)
		n.start, n.end = at, uint32(len(w.out))-1
		w.out = append(w.out, ':')
	}
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

// listInOrder writes the array at i with the elements from base on in w.order.
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
		if w.rename {
			w.renameReasoning(base)
		}
	case ruleStreamOptions:
		w.includeUsage(base)
	}
	w.sortMembers(base)
	w.memberList(i, base, r)
	w.members = w.members[:base]
}

// collect pushes the members of the object at i and returns where they start.
func (w *writer) collect(i uint32) int {
	base := len(w.members)
	for k, end := i+1, w.nodes[i].aux; k < end; k = w.next(k + 1) {
		rank := 2 * uint64(w.nodes[k].name)
		if rank == 0 {
			rank = nameRank(nUnknown, w.nameAt(k))
		}
		w.members = append(w.members, newMember(k, rank))
	}
	return base
}

// memberList writes the members from base on as the object at i.
func (w *writer) memberList(i uint32, base int, r rule) {
	at := uint32(len(w.out))
	w.out = append(w.out, '{')
	for k, end := base, len(w.members); k < end; k++ {
		m := w.members[k]
		key := m.key()
		if key == 0 || r == ruleStreamOptions && w.addUsage && w.nodes[key].name == nIncludeUsage {
			w.comma()
			w.added(m)
			continue
		}
		f := &fields[r][w.nodes[key].name]
		if f.drop != 0 && w.drops(key+1, f.drop) {
			w.nodes[key+1].flags |= flagDropped
			continue
		}
		w.comma()
		w.name(key)
		w.value(key+1, f.rule)
	}
	w.out = append(w.out, '}')
	w.placed(i, at)
}

// comma writes a comma unless a member is the first of its object.
func (w *writer) comma() {
	if w.out[len(w.out)-1] != '{' {
		w.out = append(w.out, ',')
	}
}

// added writes a member that asks for the usage chunk.
func (w *writer) added(m member) {
	if m.id() == nStreamOptions {
		w.out = append(w.out, `"stream_options":{"include_usage":true}`...)
	} else {
		w.out = append(w.out, `"include_usage":true`...)
	}
}

// drops reports whether a member with the value at i is left out.
func (w *writer) drops(i uint32, d drop) bool {
	if !w.stable {
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

// sortMembers sorts the members from base on, by rank and then by name in byte
// order of its UTF-8. Names are distinct: the guard saw to it.
func (w *writer) sortMembers(base int) {
	ms := w.members[base:]
	if len(ms) > 12 {
		slices.SortFunc(ms, w.compare)
		return
	}
	for i := 1; i < len(ms); i++ {
		m, j := ms[i], i
		for j > 0 && (ms[j-1].order() > m.order() || ms[j-1].order() == m.order() && w.compare(m, ms[j-1]) < 0) {
			ms[j] = ms[j-1]
			j--
		}
		ms[j] = m
	}
}

func (w *writer) compare(a, b member) int {
	if a.order() != b.order() {
		return int(a.order()) - int(b.order())
	}
	return bytes.Compare(w.nameAt(a.key()), w.nameAt(b.key()))
}
