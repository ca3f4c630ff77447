package canon

import (
	"encoding/binary"
	"math/bits"
)

// Word-at-a-time search for the bytes that end a run of plain text inside a
// string: the quote, the backslash and the control characters. Adding to a byte
// of seven bits what it lacks to 0x80 sets its high bit when it is above a
// bound, and carries nothing into the next byte, so that every byte of a word is
// told exactly. The quote, 0x22, joins the control characters below the bound
// once bit 1 is flipped, which maps it to 0x20 and leaves them below 0x20.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// stops returns a word with the high bit set in each byte of w that is a quote,
// a backslash or a control character.
func stops(w uint64) uint64 {
	low := (w&^highs ^ 0x02*ones) + 0x5f*ones
	slash := (w&^highs ^ '\\'*ones) + 0x7f*ones
	return ^(low&slash | w) & highs
}

// skimWords skips a string from i on, up to what ends it: the closing quote, a
// control character, or the end of the source. It returns where that is, -1 after
// a fatal fault, and how many bytes the escapes are beyond those of their text.
func (p *parser) skimWords(i int) (at, removed int) {
	for {
		at, plain := skimPlain(p.src, i)
		removed += plain
		if at >= len(p.src) || p.src[at] != '\\' {
			return at, removed
		}
		size, more := p.escape(at)
		if size < 0 {
			return -1, 0
		}
		i = at + size
		removed += more
	}
}

// skimPlain skips what most strings consist of, plain text and escapes of two
// characters that are canonical. It returns where it stopped and how many such
// escapes there were. It calls nothing, so that all it works on stays in
// registers; after a word without a stop it goes on by four, and through a word
// with escapes stop by stop: where the next word begins does then not wait for
// what this one holds.
func skimPlain(src []byte, i int) (at, plain int) {
	for i+9 <= len(src) { // a word, and one byte more for an escape that begins at its end
		w := load(src[i : i+8 : i+8])
		m := stops(w)
		if m == 0 {
			i += 8
			for i+32 <= len(src) {
				p := src[i : i+32 : i+32]
				if stops(load(p)) != 0 {
					break
				}
				if stops(load(p[8:]))|stops(load(p[16:]))|stops(load(p[24:])) != 0 {
					i += 8
					break
				}
				i += 32
			}
			continue
		}
		next := i + 8
		for ; m != 0; plain++ {
			bit := bits.TrailingZeros64(m)
			if uint16(w>>(bit&0x38)) != '\\'|'"'<<8 { // the most frequent, within the word
				k := i + bit>>3
				if src[k] != '\\' || escapeClass[src[k+1]] != plainEscape {
					return k, plain
				}
				if k == i+7 {
					next++
				}
			}
			m &^= 0x101 << (bit & 63) // nor what it escapes
		}
		i = next
	}
	for i < len(src) {
		switch c := src[i]; {
		case c == '\\' && i+1 < len(src) && escapeClass[src[i+1]] == plainEscape:
			plain++
			i += 2
		case c == '"' || c == '\\' || c < ' ':
			return i, plain
		default:
			i++
		}
	}
	return i, plain
}

func load(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
