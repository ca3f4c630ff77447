package main

import (
	"math"
	"slices"
	"sort"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/internal/vllmsim"
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
		i := sort.Search(len(o.boundaries), func(i int) bool { return o.boundaries[i].Bytes >= prefixLength })
		if i = min(i, len(o.boundaries)-1); i >= 0 {
			q.Prefix = o.boundaries[i].Hash
		}
	}
	return q
}

// What a log says of lengths may be nonsense; no tokenizer is outside of this.
const leastBytesPerToken, mostBytesPerToken = .25, 64

// defaultBytesPerToken is about what English text has with current tokenizers.
const defaultBytesPerToken = 4.0

// A mark is a place in a prompt that is known by the hash of all before it.
type mark struct {
	hash uint64
	at   float64 // bytes before it
}

// markTokens is how far apart the marks of a text lie that the simulator's
// tokenizer has read. It divides vLLM's default block.
const markTokens = 8

// marks returns places that other prompts have as well when they are the same up
// to there, the last of them its end: its boundaries or, of a chat that is to be
// read, every few tokens of what an engine would see.
func (o *outline) marks(read bool) []mark {
	var tokens []uint32
	if read {
		tokens = o.chatTokens()
	}
	if len(tokens) == 0 {
		marks := make([]mark, len(o.boundaries))
		for i, b := range o.boundaries {
			marks[i] = mark{b.Hash, float64(b.Bytes)}
		}
		return marks
	}
	each := float64(o.bytes()) / float64(len(tokens))
	var marks []mark
	for i, h := range vllmsim.BlockHashes(nil, o.boundaries[0].Hash, tokens, markTokens) {
		marks = append(marks, mark{h, float64((i+1)*markTokens) * each})
	}
	if len(tokens)%markTokens != 0 {
		marks = append(marks, mark{o.boundaries[len(o.boundaries)-1].Hash, float64(o.bytes())})
	}
	return marks
}

// chatTokens returns what the simulator would read, or nil where that is no chat
// or the text is not known.
func (o *outline) chatTokens() []uint32 {
	if o.api != canon.Chat || o.body == nil || len(o.boundaries) == 0 {
		return nil
	}
	tokens, err := vllmsim.ChatPrompt(o.body)
	if err != nil { // such as a kind of content that only the real engine reads
		return nil
	}
	return tokens
}

// cutText gives the requests that have an outline their length in tokens and
// the hashes of their blocks. A mark lies so many tokens deep as the first
// request that has it says: by the count of an engine where that is known, or at
// so many bytes to a token. So equal prefixes come out equal. A block is known by
// the next mark after its end: what two prompts share beyond their last common
// mark does not count. Texts are read for more marks than a client has where it
// is known how long they are for an engine; without, a log comes to the same as
// its recording.
func (t *trace) cutText(bytesPerToken float64, block int) {
	if bytesPerToken == 0 {
		return
	}
	t.block, t.bytesPerToken = block, bytesPerToken
	counted := slices.ContainsFunc(t.requests, func(r *request) bool { return r.outline != nil && r.outline.tokens > 0 })
	depths := map[uint64]float64{} // in tokens, by hash
	for _, r := range t.requests {
		o := r.outline
		if o == nil {
			continue
		}
		marks := o.marks(counted)
		ends := o.depths(marks, depths, bytesPerToken)
		r.prompt = max(1, int(math.Round(ends[len(ends)-1])))
		r.hashes = make([]uint64, r.prompt/block)
		for k := range r.hashes {
			i, _ := slices.BinarySearch(ends, float64((k+1)*block)-rounding)
			i = min(i, len(ends)-1)
			r.hashes[k] = mix(marks[i].hash^uint64(k)<<40) | 1
		}
	}
}

// rounding is more tokens than divisions lose.
const rounding = 1e-3

// depths returns how many tokens lie before each mark, and enters the new ones
// into known.
func (o *outline) depths(marks []mark, known map[uint64]float64, bytesPerToken float64) []float64 {
	ends := make([]float64, len(marks))
	n, at, bytes := 0, 0.0, 0.0
	for n < len(ends) {
		depth, ok := known[marks[n].hash]
		if !ok {
			break
		}
		at = max(at, depth)
		ends[n], bytes = at, marks[n].at
		n++
	}
	ratio := bytesPerToken
	if rest := float64(o.bytes()) - bytes; o.tokens > 0 && rest > 0 {
		ratio = plausible(rest / max(float64(o.tokens)-at, 1))
	}
	for ; n < len(ends); n++ {
		at += (marks[n].at - bytes) / ratio
		ends[n], bytes = at, marks[n].at
		known[marks[n].hash] = at
	}
	return ends
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
	return plausible(bytes / tokens)
}

func plausible(bytesPerToken float64) float64 {
	return min(max(bytesPerToken, leastBytesPerToken), mostBytesPerToken)
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
	learnt := false
	for _, o := range real.outcomes {
		if r := t.requests[o.request]; o.err == nil && o.prompt > 0 && r.outline != nil && r.outline.body != nil {
			r.outline.tokens, r.output, learnt = o.prompt, max(o.output, 1), true
		}
	}
	if learnt {
		t.cutText(t.bytesToAToken(), block)
	}
	return learnt
}
