package canon

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// keyVersion opens every hash. A change of what is hashed, or how, changes it:
// clients of two versions then disagree about every home, which costs hits but
// nothing else.
const keyVersion = "prefixwise/1"

// Tags tell the parts of the hashed stream apart.
const (
	tagVersion = iota + 1
	tagField   // a named value: name, value
	tagTools   // a list of tools: name of the field, hash of the list
	tagMessage // the start of a message
	tagRole
	tagText   // a text, or what is left of it after a cut
	tagTokens // a list of token ids, likewise
	tagCut    // a text as far as a boundary inside it
	tagMedia  // an image or another input that is not text
	tagPart   // the start of a part that is not text, or its type
	tagCall   // the start of a tool call, or of its function
	tagClose  // the end of a message or a part
	tagTail
	tagFold // more of a stretch too long for one step
	tagRaw
	tagFixed
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

// inline is up to which length a value stands in the stream itself; a longer
// one is represented by its hash.
const inline = 64

// hasher chains xxhash64 over a prompt. From each boundary to the next, the
// stream is the previous state, then tags, each with a length, and values. Two
// prompts have equal boundaries exactly as far as they are equal, up to
// collisions of 64 bits.
type hasher struct {
	stream  [1024]byte // since the last state, which it starts with
	n       int        // how much of stream is used
	state   uint64     // at the last boundary
	offset  int        // bytes of prompt text hashed so far
	bounds  []Boundary
	message int    // index of the message being hashed, -1 before the first
	depth   int    // bytes of text of this message so far
	cut     int    // depth of the next boundary inside it
	capped  bool   // this message has text down to rootDepth
	cap     uint64 // state there
}

func (h *hasher) reset() {
	h.bounds = h.bounds[:0]
	h.offset = 0
	h.message = -1
	h.state = 0
	h.n = 8
	clear(h.stream[:8])
}

// step folds the stream into the state.
func (h *hasher) step() {
	h.state = xxhash.Sum64(h.stream[:h.n])
	binary.LittleEndian.PutUint64(h.stream[:], h.state)
	h.n = 8
}

// mark sets a boundary here.
func (h *hasher) mark(k BoundaryKind) {
	h.step()
	h.bounds = append(h.bounds, Boundary{Hash: h.state, Offset: h.offset, Kind: k, Message: h.message})
}

// tag writes a tag and a number, the length of what follows or a value. It
// leaves room for a short value and three more tags.
func (h *hasher) tag(t byte, n int) {
	if h.n > len(h.stream)-inline-4*(1+binary.MaxVarintLen64) {
		h.step()
		h.stream[h.n] = tagFold
		h.n++
	}
	h.stream[h.n] = t
	h.n++
	if n < 0x80 {
		h.stream[h.n] = byte(n)
		h.n++
		return
	}
	h.n += binary.PutUvarint(h.stream[h.n:], uint64(n))
}

// number writes eight bytes after a tag.
func (h *hasher) number(v uint64) {
	binary.LittleEndian.PutUint64(h.stream[h.n:], v)
	h.n += 8
}

// bytes writes a tag and a value, with its length.
func (h *hasher) bytes(t byte, b []byte) {
	h.tag(t, len(b))
	if len(b) > inline {
		h.number(xxhash.Sum64(b))
		return
	}
	h.n += copy(h.stream[h.n:], b)
}

// field writes a named value; the name is one of this package's.
func (h *hasher) field(name string, value []byte) {
	h.tag(tagField, len(name))
	h.n += copy(h.stream[h.n:], name)
	h.bytes(tagField, value)
}

// startMessage opens message number i.
func (h *hasher) startMessage(i int) {
	h.message = i
	h.depth, h.cut, h.capped = 0, firstDepth, false
	h.tag(tagMessage, 0)
}

// text writes a text in canonical spelling, without its quotes; size is the
// length of the text that it spells. A boundary is set wherever the text of the
// message reaches a depth that is due.
func (h *hasher) text(t byte, s []byte, size int) {
	for h.depth+size >= h.cut {
		n := h.cut - h.depth // of text; at most size
		at := n
		if len(s) != size {
			at = skipText(s, n)
		}
		h.tag(tagCut, n)
		h.bytes(t, s[:at])
		s = s[at:]
		size -= n
		h.depth += n
		h.offset += n
		h.mark(Text)
		if h.cut == rootDepth {
			h.capped, h.cap = true, h.state
		}
		h.cut *= 2
	}
	h.bytes(t, s)
	h.depth += size
	h.offset += size
}
