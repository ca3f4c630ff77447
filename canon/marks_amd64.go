//go:build gc && !purego

package canon

import (
	"math/bits"
	"unicode/utf8"
)

// marking tells whether sources are marked, for which the processor must have
// AVX2; otherwise the scanner goes by words, as on other architectures. Marking
// saves a fifth of the time that a body of 64 KB takes.
var marking = hasAVX2()

func hasAVX2() bool

// window is how many bytes of the source are marked at a time: few, since the
// tools that the cache knows are skipped, and more would not be faster.
const window = 1024

// block has the marks of 64 bytes of the source, the first in the lowest bit.
type block struct {
	stops   uint64 // quotes, control characters, and the escapes that classify does not pass
	escapes uint64 // the backslashes that begin an escape
}

// marks are those of a stretch of the source that begins outside any escape. A
// backslash outside a string, which would mislead them, ends the parsing.
type marks struct {
	from, size int  // the stretch that is marked
	ascii      bool // all of the source that was marked so far is
	blocks     [window / 64]block
}

// unmark forgets the marks of another source.
func (p *parser) unmark() {
	p.size = 0
	p.ascii = marking
	p.utf8 = marking || utf8.Valid(p.src)
}

// mark marks the source from i on, in whole blocks. Zeros stand in for what the
// last one lacks; they are control characters, so that a scan stops there.
func (p *parser) mark(i int) {
	var last [64]byte
	src := p.src[i:]
	if len(src) < len(last) {
		copy(last[:], src)
		src = last[:]
	}
	n := min(len(src), window) / 64
	high := classify(&src[0], p.blocks[:n])
	p.from, p.size = i, 64*n
	if high != 0 && p.ascii {
		p.ascii = false
		p.utf8 = utf8.Valid(p.src)
	}
}

// classify marks 64 bytes for each of blocks, of which there must be one or more;
// src begins outside any escape. The escapes of a quote, of a backslash and of a
// newline are passed: they are escapes and nothing more, while all others, and
// one that the end of its block cuts in two, are stops as well. high is 0 if all
// bytes are ASCII.
//
//go:noescape
func classify(src *byte, blocks []block) (high uint64)

// scanString scans the string whose text starts at i, appends its node and
// returns the position after the closing quote, or -1 after a fatal fault. The
// next quote of most strings is in the block at hand.
func (p *parser) scanString(i int) int {
	off := uint(i - p.from)
	if off >= uint(p.size) || !p.utf8 {
		return p.scanAnyString(i)
	}
	b := &p.blocks[off/64%(window/64)]
	stops := b.stops >> (off % 64)
	size := bits.TrailingZeros64(stops)
	end := i + size
	if stops == 0 || end >= len(p.src) || p.src[end] != '"' {
		return p.scanAnyString(i)
	}
	n := p.push()
	n.start, n.end, n.aux = uint32(i), uint32(end), uint32(size)
	n.kind, n.flags, n.name = kindString, 0, nUnknown
	if escapes := b.escapes >> (off % 64) & (stops - 1) &^ stops; escapes != 0 {
		n.flags = flagEscaped
		n.aux -= uint32(bits.OnesCount64(escapes))
	}
	return end + 1
}

// skim is skimWords, by marks. It goes through a block stop by stop: where the
// next one is does then not wait for what this one holds.
func (p *parser) skim(i int) (at, removed int) {
	if !marking {
		return p.skimWords(i)
	}
	for {
		off := uint(i - p.from)
		if off >= uint(p.size) {
			if i >= len(p.src) {
				return len(p.src), removed
			}
			p.mark(i)
			off = 0
		}
		b := &p.blocks[off/64%(window/64)]
		stops, plain := b.stops>>(off%64), b.escapes>>(off%64)&^(b.stops>>(off%64))
		if stops == 0 {
			removed += bits.OnesCount64(plain)
			i += int(64 - off%64)
			continue
		}
		from := i
		for ; stops != 0; stops &= stops - 1 {
			k := from + bits.TrailingZeros64(stops)
			if k < i {
				continue // the second of a surrogate pair
			}
			if k >= len(p.src) || p.src[k] != '\\' {
				return k, removed + bits.OnesCount64(plain&(stops-1)&^stops)
			}
			size, more := p.escape(k)
			if size < 0 {
				return -1, 0
			}
			i = k + size
			removed += more
		}
		removed += bits.OnesCount64(plain)
		i = max(i, from+int(64-off%64))
	}
}
