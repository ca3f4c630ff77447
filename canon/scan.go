package canon

import (
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// scanAnyString scans a string of any length; scanString is its short cut.
func (p *parser) scanAnyString(i int) int {
	src := p.src
	start, odd := i, len(p.odd)
	i, removed := p.skim(i)
	switch {
	case i < 0:
		return -1
	case i >= len(src):
		return p.fail(NotJSON, i, "unterminated string")
	case src[i] != '"':
		return p.fail(NotJSON, i, "control character in a string")
	}
	flags := uint8(0)
	if removed > 0 {
		flags = flagEscaped
	}
	if len(p.odd) > odd || removed > 0 && odd == keepNodes {
		flags |= flagRespell
		p.untidy++
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

// escape reads the escape at i, of any kind, and adds it to p.odd unless it is
// canonical or p.odd is full. It returns the bytes that it takes, -1 after a fatal
// fault, and how many they are beyond those of its text.
func (p *parser) escape(i int) (taken, removed int) {
	src := p.src
	if i+1 == len(src) {
		return p.fail(NotJSON, i, "unterminated string"), 0
	}
	text, size := '/', 2
	switch escapeClass[src[i+1]] {
	case plainEscape:
		return 2, 1
	case slashEscape:
	case unicodeEscape:
		text, size = hex4(src, i+2), 6
		switch {
		case text < 0:
			return p.fail(NotJSON, i, "bad \\u escape"), 0
		case text < ' ' && shortEscape(byte(text)) == 0 && isLowerHex(src[i+5]):
			return 6, 5
		case utf16.IsSurrogate(text):
			if text, size = p.surrogate(i, text); size < 0 {
				return -1, 0
			}
		}
	default:
		return p.fail(NotJSON, i, "unknown escape"), 0
	}
	if len(p.odd) < keepNodes {
		p.odd = append(p.odd, oddEscape{uint32(i), uint32(i + size), text})
	}
	return size, size - utf8.RuneLen(text)
}

// surrogate reads on behind the \u escape at i, which spells half a character.
// It returns the whole one, U+FFFD if there is no other half, and the bytes that
// spell it, -1 after a fatal fault.
func (p *parser) surrogate(i int, half rune) (text rune, size int) {
	if next := i + 6; next+1 < len(p.src) && p.src[next] == '\\' && p.src[next+1] == 'u' && half < 0xDC00 {
		low := hex4(p.src, next+2)
		if low < 0 {
			return 0, p.fail(NotJSON, next, "bad \\u escape")
		}
		if text := utf16.DecodeRune(half, low); text != utf8.RuneError {
			return text, 12
		}
	}
	p.note(LoneSurrogate, i, uint32(len(p.nodes)), "unpaired surrogate escape")
	return utf8.RuneError, 6
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
