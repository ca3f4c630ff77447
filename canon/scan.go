package canon

import (
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// scanAnyString scans a string of any length; scanString is its short cut.
func (p *parser) scanAnyString(i int) int {
	src := p.src
	start := i
	i, removed := p.skim(i) // removed: bytes of escapes beyond those of their text
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
		switch escapeClass[src[i+1]] {
		case plainEscape:
			removed++
			i += 2
		case slashEscape:
			p.odd = append(p.odd, oddEscape{uint32(i), uint32(i + 2), '/'})
			flags |= flagRespell
			removed++
			i += 2
		case unicodeEscape:
			text, size := p.scanUnicode(i)
			if text < 0 {
				return p.fail(NotJSON, i+size, "bad \\u escape"), 0, 0
			}
			if text >= ' ' || shortEscape(byte(text)) != 0 || !isLowerHex(src[i+5]) {
				p.odd = append(p.odd, oddEscape{uint32(i), uint32(i + size), text})
				flags |= flagRespell
			}
			removed += size - utf8.RuneLen(text)
			i += size
		default:
			return p.fail(NotJSON, i, "unknown escape"), 0, 0
		}
		if i < len(src) && src[i] != '\\' { // where all but ASCII is escaped, one follows another
			var plain int
			i, plain = p.skim(i)
			removed += plain
		}
	}
}

// escapeClass classes the character after a backslash.
var escapeClass = [256]uint8{
	'"': plainEscape, '\\': plainEscape, 'b': plainEscape, 'f': plainEscape, 'n': plainEscape, 'r': plainEscape, 't': plainEscape,
	'/': slashEscape, 'u': unicodeEscape,
}

const (
	plainEscape   = iota + 1 // canonical, and one byte of text
	slashEscape              // one byte of text that needs no escape
	unicodeEscape            // \u
)

// scanUnicode reads the \u escape at i, or the two of a surrogate pair. It
// returns the character and the bytes that spell it. A negative one is a fault,
// and size is how far it is.
func (p *parser) scanUnicode(i int) (text rune, size int) {
	text = hex4(p.src, i+2)
	switch {
	case text < 0:
		return text, 0
	case text&^0x7FF != 0xD800:
		return text, 6
	case text < 0xDC00 && i+7 < len(p.src) && p.src[i+6] == '\\' && p.src[i+7] == 'u':
		low := hex4(p.src, i+8)
		if low < 0 {
			return low, 6
		}
		if low&^0x3FF == 0xDC00 {
			return utf16.DecodeRune(text, low), 12
		}
	}
	p.note(LoneSurrogate, i, uint32(len(p.nodes)), "unpaired surrogate escape")
	return utf8.RuneError, 6
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

// hex4 reads four hexadecimal digits at i, or returns a negative number.
func hex4(src []byte, i int) rune {
	if i+4 > len(src) {
		return -1
	}
	d := src[i : i+4 : i+4]
	return rune(hexDigit[d[0]])<<12 | rune(hexDigit[d[1]])<<8 | rune(hexDigit[d[2]])<<4 | rune(hexDigit[d[3]])
}

// hexDigit has the value of each hexadecimal digit, and -1 for other bytes.
var hexDigit = func() (value [256]int8) {
	for i := range value {
		value[i] = -1
	}
	for i, c := range []byte("0123456789ABCDEF") {
		value[c], value[c|0x20] = int8(i), int8(i) // a digit has that bit
	}
	return value
}()

func isLowerHex(c byte) bool { return c < 'A' || c > 'F' }
