package canon

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
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

// skim skips what most strings consist of, plain text and escapes of two
// characters that are canonical. It returns where it stopped and how many such
// escapes there were. It calls nothing, so that all it works on stays in
// registers; after a word without a stop it goes on by four, and through a word
// with escapes stop by stop: where the next word begins does then not wait for
// what this one holds.
func skim(src []byte, i int) (at, plain int) {
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
				if src[k] != '\\' || escapes[src[k+1]] != plainEscape {
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
		case c == '\\' && i+1 < len(src) && escapes[src[i+1]] == plainEscape:
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

// scanString scans the string whose text starts at i, appends its node and
// returns the position after the closing quote, or -1 after a fatal fault.
func (p *parser) scanString(i int) int {
	src := p.src
	start := i
	i, removed := skim(src, i) // removed: bytes of escapes beyond those of their text
	flags := uint8(0)
	if removed > 0 {
		flags = flagEscaped
	}
	if i >= len(src) || src[i] != '"' {
		var n int
		if i, n, flags = p.scanOddString(i); i < 0 {
			return -1
		}
		removed += n
	}
	if !p.utf8 && !utf8.Valid(src[start:i]) {
		p.note(InvalidUTF8, start+invalidAt(src[start:i]), uint32(len(p.nodes)), "string is not UTF-8")
	}
	n := p.push()
	n.start, n.end, n.aux = uint32(start), uint32(i), uint32(i-start-removed)
	n.kind, n.flags, n.name = kindString, flags, nUnknown
	return i + 1
}

// push appends a node and returns it, for scanString to fill in place: append
// would build it elsewhere first, which shows in what runs for every string.
func (p *parser) push() *node {
	at := len(p.nodes)
	if at == cap(p.nodes) {
		p.nodes = slices.Grow(p.nodes, 1)
	}
	p.nodes = p.nodes[:at+1]
	return &p.nodes[at]
}

// scanOddString goes on with a string at a place where skim stopped. It returns
// where the closing quote is, or -1, the bytes of escapes from there on beyond
// those of their text, and the flags of the string.
func (p *parser) scanOddString(i int) (at, removed int, flags uint8) {
	src := p.src
	flags = flagEscaped
	for {
		switch {
		case i >= len(src) || src[i] == '\\' && i+1 == len(src):
			return p.fail(NotJSON, i, "unterminated string"), 0, 0
		case src[i] == '"':
			if flags&flagRespell != 0 {
				p.untidy++
			}
			return i, removed, flags
		case src[i] != '\\':
			return p.fail(NotJSON, i, "control character in a string"), 0, 0
		}
		switch escapes[src[i+1]] {
		case slashEscape:
			flags |= flagRespell
			removed++
			i += 2
		case unicodeEscape:
			size, text, canonical := p.scanUnicode(i)
			if size < 0 {
				return -1, 0, 0
			}
			if !canonical {
				flags |= flagRespell
			}
			removed += size - text
			i += size
		default:
			return p.fail(NotJSON, i, "unknown escape"), 0, 0
		}
		var plain int
		i, plain = skim(src, i)
		removed += plain
	}
}

// escapes classes the character after a backslash.
var escapes = [256]uint8{
	'"': plainEscape, '\\': plainEscape, 'b': plainEscape, 'f': plainEscape, 'n': plainEscape, 'r': plainEscape, 't': plainEscape,
	'/': slashEscape, 'u': unicodeEscape,
}

const (
	plainEscape   = iota + 1 // canonical, and one byte of text
	slashEscape              // one byte of text that needs no escape
	unicodeEscape            // \u
)

// scanUnicode reads the \u escape at i. It returns the bytes the escape takes
// (a surrogate pair is one escape), the bytes of its text, and whether it is
// the canonical spelling; size is -1 after a fatal fault.
func (p *parser) scanUnicode(i int) (size, text int, canonical bool) {
	r := hex4(p.src, i+2)
	if r < 0 {
		return p.fail(NotJSON, i, "bad \\u escape"), 0, false
	}
	if r < ' ' {
		return 6, 1, shortEscape(byte(r)) == 0 && isLowerHex(p.src[i+5])
	}
	if r < 0xD800 || r > 0xDFFF {
		return 6, utf8.RuneLen(r), false
	}
	if r < 0xDC00 && i+7 < len(p.src) && p.src[i+6] == '\\' && p.src[i+7] == 'u' {
		low := hex4(p.src, i+8)
		if low < 0 {
			return p.fail(NotJSON, i+6, "bad \\u escape"), 0, false
		}
		if low >= 0xDC00 && low <= 0xDFFF {
			return 12, 4, false
		}
	}
	p.note(LoneSurrogate, i, uint32(len(p.nodes)), "unpaired surrogate escape")
	return 6, 3, false
}

// scanNumber scans the number at i and appends its node.
func (p *parser) scanNumber(i int) int {
	src := p.src
	start := i
	if src[i] == '-' {
		i++
	}
	whole := i
	i = skipDigits(src, i)
	if i == whole || i > whole+1 && src[whole] == '0' {
		return p.fail(NotJSON, whole, "bad number")
	}
	if i < len(src) && src[i] == '.' {
		i++
		from := i
		if i = skipDigits(src, i); i == from {
			return p.fail(NotJSON, i, "bad number")
		}
	}
	if i < len(src) && src[i]|0x20 == 'e' {
		i++
		if i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		from := i
		if i = skipDigits(src, i); i == from {
			return p.fail(NotJSON, i, "bad number")
		}
	}
	p.nodes = append(p.nodes, node{start: uint32(start), end: uint32(i), kind: kindNumber})
	return i
}

func skipDigits(src []byte, i int) int {
	for i < len(src) && src[i]-'0' <= 9 {
		i++
	}
	return i
}

// scanLiteral scans the word at i, one of null, true and false.
func (p *parser) scanLiteral(i int, word string, k kind) int {
	if len(p.src)-i < len(word) || string(p.src[i:i+len(word)]) != word {
		return p.fail(NotJSON, i, "not a value")
	}
	end := i + len(word)
	p.nodes = append(p.nodes, node{start: uint32(i), end: uint32(end), kind: k})
	return end
}

// invalidAt returns the offset of the first byte of b that is not UTF-8.
func invalidAt(b []byte) int {
	i := 0
	for i < len(b) {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return i
}

// hex4 reads four hexadecimal digits at i, or returns -1.
func hex4(src []byte, i int) rune {
	if i+4 > len(src) {
		return -1
	}
	var r rune
	for _, c := range src[i : i+4] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

func isLowerHex(c byte) bool { return c < 'A' || c > 'F' }
