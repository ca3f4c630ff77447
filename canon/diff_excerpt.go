package canon

import (
	"strings"
	"unicode/utf8"
)

// An excerpt has up to excerptBefore bytes before the place it shows and up to
// excerptAfter from it on: a line of a terminal for each of two requests.
const (
	excerptBefore = 24
	excerptAfter  = 56
)

// excerpt returns the text around byte off, cut on rune borders, with "…" where
// something is left out and U+FFFD for what is not UTF-8.
func excerpt(text []byte, off int) string {
	off = min(max(off, 0), len(text))
	from, to := runeStart(text, max(0, off-excerptBefore)), runeStart(text, min(len(text), off+excerptAfter))
	s := strings.ToValidUTF8(string(text[from:to]), "\uFFFD")
	if from > 0 {
		s = "…" + s
	}
	if to < len(text) {
		s += "…"
	}
	return s
}

// bounded returns a short text whole and a long one cut.
func bounded(text []byte) string { return excerpt(text, 0) }

// runeStart returns the largest offset up to off at which a rune starts.
func runeStart(text []byte, off int) int {
	if off >= len(text) {
		return len(text)
	}
	for k := 0; k < utf8.UTFMax-1 && off-k >= 0; k++ {
		if utf8.RuneStart(text[off-k]) {
			return off - k
		}
	}
	return off // not UTF-8
}
