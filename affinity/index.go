package affinity

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// index remembers which endpoints this router has sent which prefixes to. It is
// a hash table of fixed size without locks: an entry is two words, one cache
// line holds four entries, and a prefix that finds its line full takes the
// place of the one that was not used for longest. Two goroutines that write the
// same line at once may lose one of the two entries, and a reader may see the
// endpoints of another prefix in the moment in which an entry is replaced; a
// guess of where something is cached can bear both.
type index struct {
	lines []line
	shift uint // the hash's upper bits choose the line
}

type line [4]entry

// entry: the lower 40 bits of the hash and the second of last use; and up to
// four endpoints, by number.
type entry struct{ key, where atomic.Uint64 }

const (
	stampBits = 24 // seconds: half a year
	stampMask = 1<<stampBits - 1
)

// everywhere marks a prefix that more than four endpoints have had: a system
// prompt, most likely. It says nothing about where to go.
const everywhere = ^uint64(0)

// defaultIndexBytes holds two million prefixes: at 25 to a prompt, the last
// 80,000 conversations.
const defaultIndexBytes = 32 << 20

func newIndex(bytes int) *index {
	x := &index{shift: 64}
	n := 1
	for n*2*64 <= bytes {
		n *= 2
		x.shift--
	}
	x.lines = make([]line, n)
	return x
}

func (x *index) line(hash uint64) (*line, uint64) {
	// The lower bits are the tag and must not also choose the line.
	return &x.lines[mix(hash)>>x.shift&uint64(len(x.lines)-1)], hash << stampBits
}

// get returns the endpoints that have had a prefix, 0 for none.
func (x *index) get(hash uint64) uint64 {
	l, tag := x.line(hash)
	for i := range l {
		if k := l[i].key.Load(); k&^stampMask == tag && k != 0 {
			return l[i].where.Load()
		}
	}
	return 0
}

// put notes that an endpoint is being sent a prefix.
func (x *index) put(hash uint64, endpoint uint16, now time.Duration) {
	l, tag := x.line(hash)
	stamp := uint64(now/time.Second)&stampMask | 1 // never a key of 0
	oldest, age := 0, uint64(0)
	for i := range l {
		k := l[i].key.Load()
		switch a := (stamp - k) & stampMask; {
		case k != 0 && k&^stampMask == tag:
			l[i].where.Store(joined(l[i].where.Load(), endpoint))
			l[i].key.Store(tag | stamp)
			return
		case k == 0:
			oldest, age = i, everywhere
		case a > age:
			oldest, age = i, a
		}
	}
	e := &l[oldest]
	e.where.Store(0) // nobody may see the old endpoints under the new key
	e.key.Store(tag | stamp)
	e.where.Store(joined(0, endpoint))
}

// only notes that of all endpoints just one has a prefix.
func (x *index) only(hash uint64, endpoint uint16) {
	l, tag := x.line(hash)
	for i := range l {
		if k := l[i].key.Load(); k != 0 && k&^stampMask == tag {
			l[i].where.Store(joined(0, endpoint))
		}
	}
}

// joined adds an endpoint to a word of endpoints. In the word a number is one
// higher, since 0 is an empty place.
func joined(word uint64, endpoint uint16) uint64 {
	for w := word; w != 0; w >>= 16 {
		if uint16(w) == endpoint+1 {
			return word
		}
	}
	if word>>48 != 0 {
		return everywhere
	}
	return word<<16 | uint64(endpoint+1)
}

// maxKnown bounds the endpoints that are looked at for having a part of the
// prompt; a conversation moves once or twice, if at all.
const maxKnown = 8

// holdings are the depths, in bytes, up to which endpoints have had a prompt.
type holdings struct {
	n       int
	who     [maxKnown]uint16
	depth   [maxKnown]int
	general int // up to here more endpoints have had it than are told apart
	deepest int // up to here any endpoint has
}

// look adds what the index knows of one boundary, which must be deeper than
// those before it, and reports whether it knows anything.
func (h *holdings) look(x *index, b Boundary) bool {
	where := x.get(b.Hash)
	switch where {
	case 0:
		return false
	case everywhere:
		h.general = b.Bytes
	default:
		for ; where != 0; where >>= 16 {
			h.add(uint16(where)-1, b.Bytes)
		}
	}
	h.deepest = b.Bytes
	return true
}

func (h *holdings) add(endpoint uint16, depth int) {
	for i := range h.n {
		if h.who[i] == endpoint {
			h.depth[i] = max(h.depth[i], depth)
			return
		}
	}
	at := h.n
	if h.n < maxKnown {
		h.n++
	} else { // the deepest are kept
		at = 0
		for i := range h.n {
			if h.depth[i] < h.depth[at] {
				at = i
			}
		}
		if h.depth[at] >= depth {
			return
		}
	}
	h.who[at], h.depth[at] = endpoint, depth
}

// of returns the depth that an endpoint has had.
func (h *holdings) of(endpoint uint16) int {
	for i := range h.n {
		if h.who[i] == endpoint {
			return max(h.depth[i], h.general)
		}
	}
	return h.general
}

// noted reports whether a boundary, one of the head or behind it, is one that
// the index keeps: the head, the last of all, and those that are the last before
// a mark. The marks lie ever farther apart, four to each doubling, so a long
// prompt costs few entries; and since only the boundary after it decides, a
// boundary that was noted in one turn is noted in the next. What comes before
// the head is not kept: who has the head has that, and one entry is easier to
// put right than twenty.
func noted(all []Boundary, i, head int) bool {
	return i >= head && (i == head || i+1 == len(all) || depthMark(all[i].Bytes) != depthMark(all[i+1].Bytes))
}

// depthMark numbers the stretches between marks.
func depthMark(depth int) int {
	n := bits.Len64(uint64(max(depth, 1)))
	return 4*n + int(uint64(depth)<<2>>(n-1)&3)
}
