package canon

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// name is a member name of an object that is being parsed.
type name struct {
	word uint64 // its first eight bytes, zero-padded: decides most comparisons
	text []byte // decoded
	node uint32
}

func (p *parser) pushName(key uint32) {
	text := p.decoded(key)
	p.names = append(p.names, name{word: headWord(text), text: text, node: key})
}

func headWord(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	var w uint64
	for i := len(b) - 1; i >= 0; i-- {
		w = w<<8 | uint64(b[i])
	}
	return w
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
				if names[i].word == names[j].word && bytes.Equal(names[i].text, names[j].text) {
					p.duplicate(names[i].node)
				}
			}
		}
	} else {
		p.checkManyNames(names)
	}
	p.names = p.names[:base]
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
		slot := int(xxhash.Sum64(names[i].text)) & (size - 1)
		for probe := 0; table[slot] != 0; probe++ {
			other := &names[table[slot]-1]
			if other.word == names[i].word && bytes.Equal(other.text, names[i].text) {
				p.duplicate(names[i].node)
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
		if _, ok := seen[string(names[i].text)]; ok {
			p.duplicate(names[i].node)
		}
		seen[string(names[i].text)] = struct{}{}
	}
}

func (p *parser) duplicate(key uint32) {
	p.note(DuplicateName, int(p.nodes[key].start)-1, key, "second member of that name")
}
