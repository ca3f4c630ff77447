package canon

import (
	"bytes"
	"unicode/utf8"
)

// The canonical spelling of a string escapes what JSON makes one escape and
// nothing else: the quote, the backslash and the control characters below
// U+0020, by their two-character form where there is one and by \u00xx in
// lower case otherwise. It is the form of RFC 8785, section 3.2.2.2.

const hexDigits = "0123456789abcdef"

// shortEscape returns the letter of the two-character escape of a control
// character, or 0 when it has none.
func shortEscape(c byte) byte {
	switch c {
	case '\b':
		return 'b'
	case '\t':
		return 't'
	case '\n':
		return 'n'
	case '\f':
		return 'f'
	case '\r':
		return 'r'
	}
	return 0
}

// oddEscape is an escape, or the two of a surrogate pair, that is not the
// canonical spelling of its text.
type oddEscape struct {
	start, end uint32
	text       rune
}

// appendCanonical appends the canonical spelling of the text of a JSON string,
// given in a spelling that the scanner has accepted.
func appendCanonical(dst, raw []byte) []byte {
	for {
		j := bytes.IndexByte(raw, '\\')
		if j < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:j]...)
		r, size := unescape(raw[j:])
		dst = appendEscaped(dst, r)
		raw = raw[j+size:]
	}
}

// appendDecoded appends the text that raw, accepted by the scanner, spells. An
// unpaired surrogate becomes U+FFFD; the guard keeps such bodies away from the
// writer.
func appendDecoded(dst, raw []byte) []byte {
	for {
		j := bytes.IndexByte(raw, '\\')
		if j < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:j]...)
		r, size := unescape(raw[j:])
		dst = utf8.AppendRune(dst, r)
		raw = raw[j+size:]
	}
}

// appendQuoted appends text as a canonical JSON string with its quotes.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, r := range string(text) {
		dst = appendEscaped(dst, r)
	}
	return append(dst, '"')
}

func appendEscaped(dst []byte, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r >= ' ':
		return utf8.AppendRune(dst, r)
	}
	if short := shortEscape(byte(r)); short != 0 {
		return append(dst, '\\', short)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
}

// unescape reads the escape that raw starts with and returns its character and
// its length.
func unescape(raw []byte) (rune, int) {
	switch c := raw[1]; c {
	case 'b':
		return '\b', 2
	case 't':
		return '\t', 2
	case 'n':
		return '\n', 2
	case 'f':
		return '\f', 2
	case 'r':
		return '\r', 2
	case 'u':
		r := hex4(raw, 2)
		if r < 0xD800 || r > 0xDFFF {
			return r, 6
		}
		if r < 0xDC00 && len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
			if low := hex4(raw, 8); low >= 0xDC00 && low <= 0xDFFF {
				return (r-0xD800)<<10 + (low - 0xDC00) + 0x10000, 12
			}
		}
		return utf8.RuneError, 6
	default:
		return rune(c), 2
	}
}

// skipText returns how many bytes of canonical spelling the first n bytes of
// the text take. Every canonical escape is one byte of text.
func skipText(s []byte, n int) int {
	i := 0
	for n > 0 {
		j := bytes.IndexByte(s[i:min(i+n, len(s))], '\\')
		if j < 0 {
			return i + n
		}
		i += j
		n -= j + 1
		if s[i+1] == 'u' {
			i += 6
		} else {
			i += 2
		}
	}
	return i
}
