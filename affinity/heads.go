package affinity

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// heads counts the heads in use (tools and system text, as many conversations
// share them), to know on how many endpoints each may live. Spread over all,
// many long heads would not fit into the engines' memory, and each request would
// throw out what another needs; on one alone, a head in great demand would be a
// hot spot.
//
// A head may be on as many endpoints as leave room for all heads alike:
// together they may take up headMemory of the fleet's KV memory. And it gets at
// least its share of the requests, and headSlack more.
//
// Where the head is most of a prompt, as a document is that questions are asked
// about, each copy of it must be used as well: a fleet with room for all is no
// reason to compute every document everywhere. It gets its share of the requests
// once this process has seen headUses of them for each copy. That does not hold
// for a head that is the only one: agents that all begin with one system text,
// which is most of their first prompts, would begin on one endpoint, and stay.
type heads struct {
	cells [maxHeads]headCell
	kinds atomic.Int32  // cells in use
	count atomic.Uint32 // requests since the last sweep

	// As of the last sweep.
	tokens atomic.Uint64 // of all heads in use, together
	hits   atomic.Uint64 // of all heads, in headUnits
}

type headCell struct {
	key  atomic.Uint64
	hits atomic.Uint32 // in headUnits; falls to half with every headWindow requests
	size atomic.Uint32 // tokens
}

const (
	headMemory = .7   // the rest is for what conversations add; with 52 heads of 8,000 tokens on 7 instances of 110,000 this gave 92 to 94 % hits
	headSlack  = 1.2  // as much more than its share of the load, since arrivals are uneven
	headWindow = 1000 // requests in which a count falls to half
	maxHeads   = 2048 // beyond these a head is not counted, as if it were rare
	headUnits  = 16
	headUses   = 8  // requests for each copy of a head, so that computing it costs an eighth of them at most
	headLive   = 5  // of headUnits: a head that came once is forgotten after 1.7 windows
	headProbe  = 8  // cells searched for a head
	maxSpread  = 32 // a head gets this many endpoints or all: ordering more of them is not worth the time
)

// note counts a request with a head and returns the head's hits.
func (h *heads) note(key uint64, tokens int) uint32 {
	h.count.Add(1)
	at := mix(key)
	for i := range uint64(headProbe) {
		c := &h.cells[(at+i)%maxHeads]
		k := c.key.Load()
		if k == 0 && c.key.CompareAndSwap(0, key) {
			h.kinds.Add(1)
			k = key
		}
		if k == key || c.key.Load() == key {
			if c.size.Load() != uint32(tokens) {
				c.size.Store(uint32(tokens))
			}
			return c.hits.Add(headUnits)
		}
	}
	return 0
}

// sweep ages the counts and adds them up. It is called about once a second, off
// the request path, by one goroutine at a time.
func (h *heads) sweep() {
	halve := uint(0)
	for n := h.count.Load(); n >= headWindow; n -= headWindow {
		halve++
	}
	h.count.Add(-uint32(halve * headWindow))
	var tokens, hits uint64
	for i := range h.cells {
		c := &h.cells[i]
		if c.key.Load() == 0 {
			continue
		}
		n := c.hits.Load()
		if halve > 0 {
			old := n
			n >>= min(halve, 31)
			c.hits.Add(n - old)
		}
		if n == 0 {
			c.key.Store(0)
			h.kinds.Add(-1)
			continue
		}
		hits += uint64(n)
		if n >= headLive {
			tokens += uint64(c.size.Load())
		}
	}
	h.tokens.Store(tokens)
	h.hits.Store(hits)
}

// several tells whether there are more heads than one.
func (h *heads) several() bool { return h.kinds.Load() > 1 }

// due tells whether so many requests have come since the last sweep that the
// next one is due, whatever the time.
func (h *heads) due() bool { return h.count.Load() >= headWindow }

// spread returns on how many of n endpoints a head with so many hits may live,
// if the endpoints' memory is memory tokens, together; 0 means unknown. A head is
// dominant if it is most of the prompt.
func (h *heads) spread(hits uint32, n int, memory float64, dominant bool) int {
	if hits == 0 && !dominant {
		return n
	}
	r := n
	if tokens, room := float64(h.tokens.Load()), headMemory*memory; memory > 0 && tokens*float64(n) > room {
		r = 1
		for float64(2*r)*tokens <= room && 2*r <= n {
			r *= 2
		}
	}
	most := math.MaxInt
	if dominant { // a copy costs a prefill, so it must be used
		most = max(1, int(hits/headUnits/headUses))
		if r > most {
			r = 1 << (bits.Len(uint(most)) - 1)
		}
	}
	if r == n {
		return n
	}
	r = min(r, maxSpread)
	share := 0.
	if all := h.hits.Load(); all > 0 {
		share = float64(hits) / float64(max(all, uint64(hits)))
	}
	for r < n && 2*r <= most && float64(r) < share*float64(n)*headSlack {
		r *= 2
	}
	if r > maxSpread {
		return n
	}
	return min(r, n)
}
