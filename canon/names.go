package canon

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// name is a member name of an object that is being parsed.
type name struct {
	word uint64 // its headWord: decides most comparisons
	node uint32
	at   uint32 // where it starts in the source
}

// identify gives the name at node key, just scanned, its id. A name that no
// rule knows is kept for checkNames; for the others their id is enough.
func (p *parser) identify(key uint32, at int) nameID {
	n := &p.nodes[key]
	if n.flags&flagEscaped != 0 {
		from := len(p.arena)
		p.arena = appendDecoded(p.arena, p.src[n.start:n.end])
		n.start, n.end = uint32(from), uint32(len(p.arena))
		n.flags = n.flags&^flagEscaped | flagArena
	}
	text := p.nameAt(key)
	var word uint64
	if end := int(n.start) + 8; n.flags&flagArena == 0 && end <= len(p.src) {
		word = binary.LittleEndian.Uint64(p.src[n.start:])
		if len(text) < 8 {
			word &= 1<<(8*len(text)) - 1
		}
	} else {
		word = headWord(text)
	}
	id := recognise(text, word)
	n.name = id
	if id == nUnknown {
		p.names = append(p.names, name{word: word, node: key, at: uint32(at)})
	}
	return id
}

// fewNames is up to how many names are compared pair by pair; 16 names are 120
// comparisons of two words, less than filling a table.
const fewNames = 16

// checkNames notes a duplicate among the names of the object that is about to
// be closed, those from base on, and forgets them. It takes linear time for
// any number of names.
func (p *parser) checkNames(base int) {
	names := p.names[base:]
	if len(names) <= fewNames {
		for i := 1; i < len(names); i++ {
			for j := range names[:i] {
				if names[i].word == names[j].word && p.sameName(&names[i], &names[j]) {
					p.duplicate(&names[i])
				}
			}
		}
	} else {
		p.checkManyNames(names)
	}
	p.names = p.names[:base]
}

func (p *parser) sameName(a, b *name) bool {
	return bytes.Equal(p.nameAt(a.node), p.nameAt(b.node))
}

// checkManyNames looks every name up in an open-addressed table. The hash has
// no secret, so a sender could choose names that collide; a long probe
// sequence therefore falls back to a map, whose hash is random.
func (p *parser) checkManyNames(names []name) {
	size := 64
	for size < 2*len(names) {
		size *= 2
	}
	if cap(p.table) < size {
		p.table = make([]uint32, size)
	}
	table := p.table[:size]
	clear(table)
	const longProbe = 64
	for i := range names {
		slot := int(xxhash.Sum64(p.nameAt(names[i].node))) & (size - 1)
		for probe := 0; table[slot] != 0; probe++ {
			other := &names[table[slot]-1]
			if other.word == names[i].word && p.sameName(other, &names[i]) {
				p.duplicate(&names[i])
				break
			}
			if probe == longProbe {
				p.checkNamesInMap(names)
				return
			}
			slot = (slot + 1) & (size - 1)
		}
		table[slot] = uint32(i + 1)
	}
}

func (p *parser) checkNamesInMap(names []name) {
	seen := make(map[string]struct{}, len(names))
	for i := range names {
		text := p.nameAt(names[i].node)
		if _, ok := seen[string(text)]; ok {
			p.duplicate(&names[i])
		}
		seen[string(text)] = struct{}{}
	}
}

func (p *parser) duplicate(n *name) {
	p.note(DuplicateName, int(n.at), n.node, "second member of that name")
}
