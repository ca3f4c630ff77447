package main

import (
	"sort"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
)

// An outline is what is known of a prompt that came as text or was recorded: the
// hashes of its prefixes, as a client sees them, at the places where messages
// end and at some depths within long ones.
type outline struct {
	api        canon.API
	body       []byte // the request itself, nil when it was only recorded
	model      string
	head, root uint64
	boundaries []affinity.Boundary
	previous   int // boundaries that the request before had as well
	session    string
	tenant     string
	cacheKey   string
	tokens     int            // of the prompt, as an engine counted them; 0: unknown
	fixed      map[int]uint64 // the hash of the first characters, by their number
}

// bytes is the length of the prompt's text.
func (o *outline) bytes() int {
	if n := len(o.boundaries); n > 0 {
		return max(o.boundaries[n-1].Bytes, 1)
	}
	return 1
}

// request is what the client would tell its router.
func (o *outline) request(prefixLength int) affinity.Request {
	q := affinity.Request{
		Head: o.head, Root: o.root, Boundaries: o.boundaries, Previous: o.previous,
		Session: o.session, Tenant: o.tenant, CacheKey: o.cacheKey, Prefix: o.fixed[prefixLength],
	}
	if q.Prefix == 0 { // no text: the first boundary that has so many bytes before it
		if i := o.reach(float64(prefixLength)); i >= 0 {
			q.Prefix = o.boundaries[i].Hash
		}
	}
	return q
}

// reach returns the first boundary at or after so many bytes, or the last one.
func (o *outline) reach(bytes float64) int {
	i := sort.Search(len(o.boundaries), func(i int) bool { return float64(o.boundaries[i].Bytes) >= bytes })
	return min(i, len(o.boundaries)-1)
}

// What a log says of lengths may be nonsense; no tokenizer is outside of this.
const leastBytesPerToken, mostBytesPerToken = .25, 64

// defaultBytesPerToken is about what English text has with current tokenizers.
const defaultBytesPerToken = 4.0

// cutText gives the requests that have an outline their length in tokens and
// the hashes of their blocks. Equal prefixes must come out equal, so one ratio
// of bytes to a token serves all. A block is known by the next boundary after
// its end: what two prompts share beyond their last common boundary does not count.
func (t *trace) cutText(bytesPerToken float64, block int) {
	if bytesPerToken == 0 {
		return
	}
	t.block, t.bytesPerToken = block, bytesPerToken
	for _, r := range t.requests {
		o := r.outline
		if o == nil {
			continue
		}
		r.prompt = max(1, int(float64(o.bytes())/bytesPerToken))
		r.hashes = make([]uint64, r.prompt/block)
		for k := range r.hashes {
			i := o.reach(float64((k+1)*block) * bytesPerToken)
			r.hashes[k] = mix(o.boundaries[i].Hash^uint64(k)<<40) | 1
		}
	}
}

// bytesToAToken returns the ratio that the prompts have of which an engine has
// counted the tokens, or the default when there are none.
func (t *trace) bytesToAToken() float64 {
	var bytes, tokens float64
	for _, r := range t.requests {
		if o := r.outline; o != nil && o.tokens > 0 {
			bytes, tokens = bytes+float64(o.bytes()), tokens+float64(o.tokens)
		}
	}
	if tokens == 0 {
		return defaultBytesPerToken
	}
	return min(max(bytes/tokens, leastBytesPerToken), mostBytesPerToken)
}

// nameSessions numbers the conversations of a trace of outlines: those with one
// root, or with one session id. Requests must be in the order of sending.
func (t *trace) nameSessions() {
	type key struct {
		root    uint64
		session string
	}
	numbers := map[key]int{}
	last := map[int]*outline{}
	for _, r := range t.requests {
		k := key{r.outline.root, ""}
		if r.outline.session != "" {
			k = key{0, r.outline.session}
		}
		n, known := numbers[k]
		if !known {
			n = len(numbers)
			numbers[k] = n
		}
		r.session = n
		if before := last[n]; before != nil && r.outline.previous == 0 {
			a, b := before.boundaries, r.outline.boundaries
			for r.outline.previous < min(len(a), len(b)) && a[r.outline.previous].Hash == b[r.outline.previous].Hash {
				r.outline.previous++
			}
		}
		last[n] = r.outline
	}
}

// learn takes over how long prompts and answers have come out, where only the
// bytes of the prompts were known. False: there was nothing to learn.
func (t *trace) learn(real *trial, block int) bool {
	if t.bytesPerToken == 0 {
		return false
	}
	var bytes, tokens float64
	for _, o := range real.outcomes {
		if r := t.requests[o.request]; o.err == nil && o.prompt > 0 && r.outline != nil && r.outline.body != nil {
			bytes, tokens = bytes+float64(r.outline.bytes()), tokens+float64(o.prompt)
			r.output = max(o.output, 1)
		}
	}
	if tokens == 0 {
		return false
	}
	t.cutText(min(max(bytes/tokens, leastBytesPerToken), mostBytesPerToken), block)
	return true
}
