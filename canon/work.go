package canon

import (
	"bytes"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// work is the scratch memory of one call. It is reused; nothing in a Result
// points into it.
type work struct {
	writer
	hasher hasher
	walk   promptWalk
}

// Scratch above these sizes is left to the collector, so that one huge body
// does not stay in memory.
const (
	keepNodes = 1 << 16
	keepBytes = 1 << 20
)

func (w *work) run(c *Canonicalizer, api API, body []byte) Result {
	w.reset(body, maxDepth)
	w.api = api
	if fields[rootRule[api]][nTools].rule == ruleTools { // elsewhere it is a member like any other
		w.cache = c.cache
	}
	ok := w.parse()
	if ok && w.kind(0) != kindObject {
		w.fail(NotObject, 0, "the body is not an object")
		ok = false
	}
	if !ok {
		return w.untouched(api, body, false)
	}
	rule := rootRule[api]
	w.checkShape(rule)
	if w.diag.Code != OK {
		return w.untouched(api, body, true)
	}
	var r Result
	w.readRoot(&r)
	w.stable = c.options.Level != Wire && api != Embeddings
	w.strong = c.options.Level == Strong && api != Embeddings
	w.sortProps = w.strong
	w.rename = c.options.ReasoningName != ""
	w.addUsage = c.options.IncludeUsage && r.Stream && (api == Chat || api == Completions) && w.mayAddUsage()
	w.order, w.members, w.moved = w.order[:0], w.members[:0], w.moved[:0]

	// No spelling is longer than the caller's, apart from the usage member.
	w.out = make([]byte, 0, len(body)+len(`"stream_options":{"include_usage":true},`))
	w.rawTools = nil
	w.document(rule)
	if w.rawTools != nil {
		w.remember(w.rawTools)
	}
	r.API, r.Body, r.UsageAdded = api, w.out, w.addUsage

	w.hasher.reset()
	w.walk.hash(&w.writer, &w.hasher, api, rule)
	r.Head, r.Root = w.walk.headHash, w.walk.rootHash
	r.Boundaries = slices.Clone(w.hasher.bounds)
	r.Previous = w.walk.previous
	return r
}

// untouched is the result for a body with a fault. Its model and the like are
// still read when the body could be parsed.
func (w *work) untouched(api API, body []byte, parsed bool) Result {
	r := untouched(api, body, w.diag)
	if parsed {
		w.readRoot(&r)
	}
	return r
}

// readRoot reads the members of the root that routing asks for. Of duplicates
// the last counts, as in Python.
func (w *work) readRoot(r *Result) {
	for k, end := uint32(1), w.nodes[0].aux; k < end; k = w.next(k + 1) {
		val := k + 1
		switch w.kind(val) {
		case kindString:
			switch w.nodes[k].name {
			case nModel:
				r.Model = string(w.decoded(val))
			case nPreviousResponseId:
				r.PreviousResponseID = string(w.decoded(val))
			case nPromptCacheKey:
				r.CacheKey = string(w.decoded(val))
			}
		case kindTrue, kindFalse:
			if w.nodes[k].name == nStream {
				r.Stream = w.kind(val) == kindTrue
			}
		}
	}
}

// checkShape notes a field whose type leaves no way to tell the prompt.
func (w *work) checkShape(r rule) {
	for k, end := uint32(1), w.nodes[0].aux; k < end; k = w.next(k + 1) {
		f := &fields[r][w.nodes[k].name]
		kind := w.kind(k + 1)
		switch {
		case f.use == useModel && kind != kindString:
			w.note(WrongShape, int(w.nodes[k+1].start), k, "model is not a string")
		case f.rule == ruleMessageList && kind != kindArray:
			w.note(WrongShape, int(w.nodes[k+1].start), k, "messages is not a list")
		case f.rule == ruleItemList && kind != kindArray && kind != kindString:
			w.note(WrongShape, int(w.nodes[k+1].start), k, "input is neither a string nor a list")
		}
	}
}

// mayAddUsage reports whether include_usage can be set and is not set by the
// caller.
func (w *work) mayAddUsage() bool {
	options := w.find(0, nStreamOptions)
	if options == 0 || w.kind(options) == kindNull {
		return true
	}
	if w.kind(options) != kindObject {
		return false
	}
	usage := w.find(options, nIncludeUsage)
	return usage == 0 || w.kind(usage) != kindTrue
}

// release clears what points into the caller's memory and reports whether the
// scratch is worth keeping.
func (w *work) release() bool {
	w.src, w.out, w.entry, w.cache, w.rawTools = nil, nil, nil, nil, nil
	w.walk = promptWalk{later: w.walk.later[:0]}
	clear(w.moved[:cap(w.moved)])
	return cap(w.nodes) <= keepNodes && cap(w.arena) <= keepBytes && cap(w.names) <= keepNodes &&
		cap(w.members) <= keepNodes && cap(w.table) <= keepNodes && cap(w.order) <= keepNodes &&
		cap(w.hasher.bounds) <= keepNodes
}

// cachedTools takes a list of tools that the cache knows as a whole; it is
// called for the value of each member of the root, and returns the position
// after the list or 0.
func (p *parser) cachedTools(i int, key uint32) int {
	if i >= len(p.src) || p.src[i] != '[' || p.nodes[key].name != nTools || p.entry != nil {
		return 0
	}
	e := p.cache.find(p.api, p.src[i:])
	if e == nil {
		return 0
	}
	p.entry = e
	at := uint32(len(p.nodes))
	end := i + len(e.raw)
	p.nodes = append(p.nodes, node{start: uint32(i), end: uint32(end), aux: at + 1, kind: kindCached})
	return end
}

// remember adds a list of tools to the cache if that is worth it.
func (w *writer) remember(raw []byte) {
	if w.cache == nil || !w.cache.worth(raw) {
		return
	}
	e := &toolEntry{api: w.api, raw: bytes.Clone(raw)}
	e.plain = w.formOf(raw, false)
	if w.strong {
		e.sorted = w.formOf(raw, true)
	}
	w.cache.add(e)
}

// formOf writes the list anew, alone. It happens once for each list.
func (w *writer) formOf(raw []byte, sorted bool) toolForm {
	var alone writer
	alone.reset(raw, maxDepth)
	alone.parse()
	alone.api, alone.stable, alone.sortProps = w.api, w.stable, sorted
	alone.tools(0)
	return toolForm{bytes: bytes.Clone(alone.out), hash: xxhash.Sum64(alone.out)}
}
