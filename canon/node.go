package canon

import (
	"fmt"
	"math"
	"strings"
)

// kind is the type of a JSON value.
type kind uint8

const (
	kindNull kind = iota
	kindFalse
	kindTrue
	kindNumber
	kindString
	kindCached // a tools array recognised by its raw bytes; its inside was not parsed
	kindArray
	kindObject
)

// Bits of node.flags.
const (
	flagEscaped   uint8 = 1 << iota // string: holds at least one escape
	flagRespell                     // string: an escape is not canonical; container: so is something inside, or there is whitespace
	flagArena                       // name: was spelled with escapes; the span is that of its decoded form in the arena
	flagDropped                     // the writer left this value out
	flagCollapsed                   // list: written as the string that its first element now is; what lies inside is void
)

// node is one value of a document, 16 bytes. A document is the list of its
// nodes in the order of its text: a container, then its children; a member is
// a string node, its name, followed by its value.
//
// Spans point into the source until the writer has written the value, and into
// the canonical bytes from then on.
type node struct {
	start, end uint32 // strings: without the quotes
	aux        uint32 // string: length of its decoded text; container: index of the node after its last descendant
	kind       kind
	flags      uint8
	name       nameID // member name: which one
}

// doc is a parsed document.
type doc struct {
	src   []byte
	nodes []node
	arena []byte // decoded forms of names, and of other short strings, that were spelled with escapes
}

// next returns the index of the node after the value at i.
func (d *doc) next(i uint32) uint32 {
	if n := &d.nodes[i]; n.kind >= kindCached {
		return n.aux
	}
	return i + 1
}

func (d *doc) kind(i uint32) kind { return d.nodes[i].kind }

// decoded returns the text of the string at i. It must not be called once the
// writer has written that string.
func (d *doc) decoded(i uint32) []byte {
	n := &d.nodes[i]
	if n.flags&flagArena != 0 {
		return d.arena[n.start:n.end]
	}
	raw := d.src[n.start:n.end]
	if n.flags&flagEscaped == 0 {
		return raw
	}
	from := len(d.arena)
	d.arena = appendDecoded(d.arena, raw)
	return d.arena[from:len(d.arena):len(d.arena)]
}

// is reports whether the value at i is a string with the text s.
func (d *doc) is(i uint32, s string) bool {
	n := &d.nodes[i]
	if n.kind != kindString || int(n.aux) != len(s) {
		return false
	}
	return string(d.decoded(i)) == s
}

// nameAt returns the decoded member name at node k. It must not be called once
// the writer has written that name.
func (d *doc) nameAt(k uint32) []byte {
	n := &d.nodes[k]
	if n.flags&flagArena != 0 {
		return d.arena[n.start:n.end]
	}
	return d.src[n.start:n.end]
}

// find returns the value of the member of the object at i with that name, or 0,
// which is never a member's value. It may be called once the writer has written
// that object, too.
func (d *doc) find(i uint32, name nameID) uint32 {
	if d.nodes[i].kind != kindObject {
		return 0
	}
	for k, end := i+1, d.nodes[i].aux; k < end; k = d.next(k + 1) {
		if d.nodes[k].name == name {
			return k + 1
		}
	}
	return 0
}

// isTokens reports whether the array at i is a list of token ids.
func (d *doc) isTokens(i uint32) bool {
	return d.nodes[i].aux > i+1 && d.nodes[i+1].kind == kindNumber
}

// length counts the elements of the array at i, up to limit.
func (d *doc) length(i uint32, limit int) int {
	n := 0
	for k, end := i+1, d.nodes[i].aux; k < end && n < limit; k = d.next(k) {
		n++
	}
	return n
}

// maxPathSteps bounds the path of a diagnosis; a document as deep as the
// guard allows would otherwise fill a log line. Long names are cut as well.
const maxPathSteps = 16

// pathTo spells the way from the root to the node at target. It works while
// the document is still being parsed: a container whose end is not known yet
// holds everything after it.
func (d *doc) pathTo(target uint32) string {
	var b strings.Builder
	at := uint32(0)
	for step := 0; at < target && int(at) < len(d.nodes) && d.nodes[at].kind >= kindArray; step++ {
		if step == maxPathSteps {
			b.WriteString("…")
			break
		}
		object := d.nodes[at].kind == kindObject
		child, index := at+1, 0
		for target >= d.after(child, object) {
			child = d.after(child, object)
			index++
		}
		if !object {
			fmt.Fprintf(&b, "[%d]", index)
		} else if int(child) < len(d.nodes) {
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(bounded(d.nameAt(child)))
			child++
		}
		at = child
	}
	return b.String()
}

// after returns the node after the child of a container at child, a value or a
// member; what is still being parsed has no end.
func (d *doc) after(child uint32, member bool) uint32 {
	if member {
		child++
	}
	if int(child) >= len(d.nodes) || d.nodes[child].kind >= kindCached && d.nodes[child].aux == 0 {
		return math.MaxUint32
	}
	return d.next(child)
}
