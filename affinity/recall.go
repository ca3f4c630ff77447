package affinity

import (
	"math/bits"
	"time"
)

// trail is the part of a prompt that the index keeps: some of its boundaries,
// and the lines in which they are, or would be.
type trail struct {
	in   *index
	n    int
	own  uint64 // mixed into the hashes, so that tenants are apart
	only int    // the one that is looked up and not kept; -1 if there is none
	at   [maxTrail]struct{ boundary, line uint32 }
}

// maxTrail is how many marks there are between a kilobyte of prompt and 64 MiB.
const maxTrail = 64

// headIndex returns the boundary at which the request's head ends, -1 if it is
// not known.
func headIndex(req *Request) int {
	if req.Head != 0 {
		for i := range req.Boundaries {
			if req.Boundaries[i].Hash == req.Head {
				return i
			}
		}
	}
	return -1
}

// follow works out which boundaries of a prompt the index keeps: the head, the
// last of all, the last before the end of the root (about where a document ends
// that the first message begins with), and those that are the last before a mark.
// The marks lie ever farther apart, four to each doubling, so a long prompt costs
// few entries; and since only the boundary after it decides, a boundary that was
// kept in one turn is kept in the next. What comes before the head is not kept:
// who has the head has that, and one entry is easier to put right than twenty.
// The end of the conversation's last turn is looked up as well.
func (t *trail) follow(all []Boundary, head int, root uint64, previous int) {
	t.n, t.only = 0, -1
	first := max(head, 0)
	if previous > 0 && previous-1 < first {
		t.only = 0
		t.at[0].boundary = uint32(previous - 1)
		t.n = 1
	}
	if len(all) == 0 {
		return
	}
	mark := depthMark(all[first].Bytes)
	for i := first; i < len(all) && t.n < maxTrail; i++ {
		next := -1
		if i+1 < len(all) {
			next = depthMark(all[i+1].Bytes)
		}
		kept := mark != next || i == head || all[i+1].Hash == root // in range: after the last boundary next is -1, which no mark is
		mark = next
		switch {
		case kept:
		case i+1 == previous:
			t.only = t.n
		default:
			continue
		}
		t.at[t.n].boundary = uint32(i)
		t.n++
	}
}

// seek finds the trail's lines in an index. It touches all of them before any is read, so
// that the processor waits for them together: each is likely to be in none of
// its caches.
func (t *trail) seek(x *index, own uint64, all []Boundary) {
	t.in, t.own = x, own
	for i := range t.n {
		at := &t.at[i]
		at.line = x.place(all[at.boundary].Hash ^ own)
		x.lines[at.line][0].key.Load()
	}
}

// depthMark numbers the stretches between marks.
func depthMark(depth int) int {
	n := bits.Len64(uint64(max(depth, 1)))
	return 4*n + int(uint64(depth)<<2>>(n-1)&3)
}

// recall works out who has had which part of the prompt, and counts whether this
// is a later turn of a conversation, and whether it is known who served the last
// one: because this router sent it, or because the application says so.
func (r *Router) recall(t *trail, c *choice, req *Request, head int, have *holdings) (stranger bool) {
	previous := req.previous()
	for i := range t.n {
		b := &req.Boundaries[t.at[i].boundary]
		known := have.look(t.in.lines[t.at[i].line].get(b.Hash^t.own), b.Bytes)
		if int(t.at[i].boundary)+1 == previous {
			stranger = !known
		}
	}
	if c.last != nil {
		stranger = false
		have.add(c.last.number, carried(req, head, have.deepest))
	} else if previous <= 0 {
		r.later.add(0, turnMemory)
		return false
	}
	r.later.add(1, turnMemory)
	if stranger {
		r.strangers.add(1, turnMemory)
	} else {
		r.strangers.add(0, turnMemory)
	}
	return stranger
}

// remember notes that an endpoint gets the prompt.
func (t *trail) remember(req *Request, endpoint uint16, now time.Duration) {
	for i := range t.n {
		if i != t.only {
			t.in.lines[t.at[i].line].put(req.Boundaries[t.at[i].boundary].Hash^t.own, endpoint, now)
		}
	}
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
// those before it, and reports whether that is anything.
func (h *holdings) look(where uint64, depth int) bool {
	switch where {
	case 0:
		return false
	case everywhere:
		h.general = depth
	default:
		for ; where != 0; where >>= 16 {
			h.add(uint16(where)&^served-1, depth)
		}
	}
	h.deepest = depth
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

// among appends the indices in up of those that have had more than is general,
// in that order, so that ties go alike in every client.
func (h *holdings) among(g *group, at []int) []int {
	for i := range h.n {
		s := -1
		if h.depth[i] > h.general {
			s = g.numbered(h.who[i])
		}
		if s < 0 {
			continue
		}
		at = append(at, s)
		for j := len(at) - 1; j > 0 && at[j-1] > s; j-- {
			at[j], at[j-1] = at[j-1], s
		}
	}
	return at
}
