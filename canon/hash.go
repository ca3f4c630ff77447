package canon

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// keyVersion opens every hash. A change of what is hashed, or how, changes it:
// clients of two versions then disagree about every home, which costs hits but
// nothing else.
const keyVersion = "prefixwise/1"

// Tags tell the parts of the hashed stream apart. They are control characters,
// which canonical JSON never contains: a text can therefore end with a tag, and
// need not begin with a length that its own prefix could not know.
const (
	tagField   = 0x01 // a named value: name, value
	tagTools   = 0x02 // the hash of the canonical tools
	tagMessage = 0x03 // the start of a message
	tagRole    = 0x04
	tagText    = 0x05 // a text, ended by tagEnd and its length
	tagTokens  = 0x06 // a list of token ids, likewise
	tagEnd     = 0x07
	tagMedia   = 0x08 // an image or another input that is not text
	tagPart    = 0x0b
	tagCall    = 0x0c
	tagClose   = 0x0e // the end of a message
	tagRaw     = 0x0f
	tagTail    = 0x10
	tagFixed   = 0x11
)

// firstDepth is the first depth inside a message's text at which a boundary is
// set; the following ones double. Below 1 KiB, some 250 tokens, a boundary
// would say little: an engine caches blocks of 16 tokens and more, and a
// message that short has a boundary at its end anyway. Doubling bounds their
// number by the logarithm of the text.
const firstDepth = 1 << 10

// rootDepth caps the text of the first user message in the root: 64 KiB, the
// longest prefix that SageMaker's prefix-aware routing accepts.
const rootDepth = 64 << 10

// hasher hashes a prompt as one stream with xxhash64 and notes its state at
// the boundaries, so that two prompts have equal boundaries exactly as far as
// their streams are equal.
type hasher struct {
	digest  xxhash.Digest
	small   [512]byte // of the stream, not yet in digest: saves a call for each short piece
	n       int       // how much of small is used
	offset  int       // bytes of prompt text hashed so far
	bounds  []Boundary
	message int    // index of the message being hashed, -1 before the first
	depth   int    // bytes of text of this message so far
	cut     int    // depth of the next boundary inside it
	capped  uint64 // state at rootDepth of this message, if it is that long
}

func (h *hasher) reset() {
	h.digest.Reset()
	h.n = 0
	h.bounds = h.bounds[:0]
	h.offset = 0
	h.message = -1
}

// write adds bytes to the stream.
func (h *hasher) write(b []byte) {
	const short = 128
	if len(b) > short {
		h.flushSmall()
		h.digest.Write(b)
		return
	}
	if h.n+short > len(h.small) {
		h.flushSmall()
	}
	h.n += copy(h.small[h.n:], b)
}

func (h *hasher) writeName(name string) {
	if h.n+len(name) > len(h.small) {
		h.flushSmall()
	}
	h.n += copy(h.small[h.n:], name)
}

func (h *hasher) flushSmall() {
	h.digest.Write(h.small[:h.n])
	h.n = 0
}

// sum returns the state of the stream.
func (h *hasher) sum() uint64 {
	h.flushSmall()
	return h.digest.Sum64()
}

// mark sets a boundary here.
func (h *hasher) mark(k BoundaryKind) {
	h.bounds = append(h.bounds, Boundary{Hash: h.sum(), Offset: h.offset, Kind: k, Message: h.message})
}

// tag writes a tag and a number, the length of what follows or a value.
func (h *hasher) tag(t byte, n uint64) {
	if h.n+1+binary.MaxVarintLen64 > len(h.small) {
		h.flushSmall()
	}
	h.small[h.n] = t
	h.n += 1 + binary.PutUvarint(h.small[h.n+1:], n)
}

// bare writes a tag alone.
func (h *hasher) bare(t byte) {
	if h.n == len(h.small) {
		h.flushSmall()
	}
	h.small[h.n] = t
	h.n++
}

// bytes writes a tag and a value, with its length.
func (h *hasher) bytes(t byte, b []byte) {
	h.tag(t, uint64(len(b)))
	h.write(b)
}

// field writes a named value.
func (h *hasher) field(name string, value []byte) {
	h.tag(tagField, uint64(len(name)))
	h.writeName(name)
	h.bytes(tagField, value)
}

// startMessage opens message number i.
func (h *hasher) startMessage(i int) {
	h.message = i
	h.depth, h.cut, h.capped = 0, firstDepth, 0
	h.bare(tagMessage)
}

// text writes a text in canonical spelling, without its quotes; size is the
// length of the text that it spells. A boundary is set wherever the text of the
// message reaches a depth that is due.
func (h *hasher) text(t byte, s []byte, size int) {
	h.bare(t)
	rest, left := s, size
	for h.depth+left >= h.cut {
		n := h.cut - h.depth // of text; at most left
		at := n
		if len(rest) != left {
			at = skipText(rest, n)
		}
		h.write(rest[:at])
		rest = rest[at:]
		left -= n
		h.depth += n
		h.offset += n
		h.mark(Text)
		if h.cut == rootDepth {
			h.capped = h.bounds[len(h.bounds)-1].Hash
		}
		h.cut *= 2
	}
	h.write(rest)
	h.depth += left
	h.offset += left
	h.tag(tagEnd, uint64(len(s)))
}
