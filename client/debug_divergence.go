package client

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/middleware"
)

// history remembers the prompts that conversations have sent last, as chains of
// hashes, and notices where a later one does not go on from the one before: the
// cache has nothing from there on.
type history struct {
	mu     sync.Mutex
	byKey  map[uint64]*list.Element
	order  list.List // of *remembered, the latest first
	marks  int       // of all
	recent []divergence
}

// remembered is the last prompt of a conversation.
type remembered struct {
	key      uint64
	ended    time.Time
	chain    []canon.Boundary
	endpoint string
}

// divergence is a place at which a prompt stopped being the one before and more.
type divergence struct {
	Time         time.Time `json:"time"`
	Conversation hash      `json:"conversation"`
	// Part is what differs first: "head-fields" (model, template, salt), "tools",
	// "system", "turn" (another message), "raw" (a body that is not canonicalized).
	Part string `json:"part"`
	// Message is the index of the message that differs, -1 before the first.
	Message int `json:"message"`
	// Shared is the bytes of prompt before that, and Lost those of the earlier
	// prompt after it, up to what both could have had in common.
	Shared   int    `json:"shared_bytes"`
	Lost     int    `json:"lost_bytes"`
	Endpoint string `json:"endpoint"`
}

const (
	// The history is bounded to some 4 MB: 4,096 conversations, or fewer long
	// ones, of 32 bytes for each boundary.
	maxRemembered      = 4096
	maxRememberedMarks = 1 << 17
	maxDivergences     = 32
)

// add takes a call that has ended well.
func (h *history) add(d *middleware.Done) {
	if len(d.Boundaries) == 0 || len(d.Boundaries) > maxRememberedMarks || d.API == canon.Embeddings {
		return
	}
	_, key := (&affinity.Request{Root: d.Root, Session: d.Session, Tenant: d.Tenant, CacheKey: d.CacheKey}).Keys()
	if key == 0 {
		return
	}
	now := remembered{key: key, ended: d.Start.Add(d.Total), chain: d.Boundaries, endpoint: d.Endpoint}
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.byKey[key]
	if e == nil {
		if h.byKey == nil {
			h.byKey = map[uint64]*list.Element{}
		}
		e = h.order.PushFront(&remembered{})
		h.byKey[key] = e
	}
	last := e.Value.(*remembered)
	if last.ended.After(d.Start) {
		// Two of one conversation at a time: branches, which differ rightly.
		return
	}
	if v, parts := parting(last.chain, now.chain); parts {
		v.Time, v.Conversation, v.Endpoint = d.Start, hash(key), d.Endpoint
		h.recent = append(h.recent, v)
		h.recent = h.recent[max(0, len(h.recent)-maxDivergences):]
	}
	h.marks += len(now.chain) - len(last.chain)
	*last = now
	h.order.MoveToFront(e)
	for h.order.Len() > maxRemembered || h.marks > maxRememberedMarks {
		h.forget(h.order.Back())
	}
}

func (h *history) forget(e *list.Element) {
	r := h.order.Remove(e).(*remembered)
	delete(h.byKey, r.key)
	h.marks -= len(r.chain)
}

// parting finds the first boundary at which the later prompt is another than
// the earlier one, unless a conversation gives rise to the difference of
// itself: it goes on, it goes back, or its last message is asked anew.
func parting(earlier, later []canon.Boundary) (divergence, bool) {
	n := 0
	for n < len(earlier) && n < len(later) && earlier[n].Hash == later[n].Hash {
		n++
	}
	if n == len(earlier) || n == len(later) || earlier[n].Kind == canon.Tail {
		return divergence{}, false
	}
	at := earlier[n]
	lastEarlier, lastLater := earlier[len(earlier)-1], later[len(later)-1]
	if at.Message >= 0 && at.Message == lastEarlier.Message && lastLater.Message <= lastEarlier.Message {
		return divergence{}, false
	}
	// Depths within a message say nothing of what it is; its end does.
	for i := n; i < len(earlier) && earlier[i].Message == at.Message && at.Kind == canon.Text; i++ {
		at = earlier[i]
	}
	v := divergence{Part: at.Kind.String(), Message: at.Message}
	if n > 0 {
		v.Shared = earlier[n-1].Offset
	}
	v.Lost = min(lastEarlier.Offset, lastLater.Offset) - v.Shared
	return v, true
}

// divergences returns the latest, the newest first.
func (h *history) divergences() []divergence {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := append([]divergence{}, h.recent...) // an empty list in JSON, not null
	slices.Reverse(all)
	return all
}

// hash is written as text: JSON's numbers are exact up to 53 bits only.
type hash uint64

// String returns 16 hexadecimal digits.
func (h hash) String() string { return hexOf(uint64(h)) }

// MarshalText does as String.
func (h hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }
