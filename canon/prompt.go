package canon

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// promptWalk hashes the prompt of a document that has been written: what vLLM puts
// into its tokens or its block hash, in the order in which a prompt is built,
// whatever the order in the body.
type promptWalk struct {
	*doc
	*hasher
	api      API
	out      []byte
	root     []member // members of the root, in canonical order
	order    []uint32 // messages or items, in canonical order
	moved    []reordered
	tools    uint64 // hash of the canonical tools, if it is known already
	headHash uint64
	rootHash uint64
	headDone bool
	rootDone bool
	system   bool     // what is at hand is system text of Anthropic's shape
	previous int      // boundaries before the last stretch that the model wrote
	answer   bool     // the message at hand, or the one before, is the model's
	elem     rule     // of the elements of the list of messages or items
	later    []uint32 // names of members that are hashed after the one at hand, a stack
}

// canonical returns the canonical bytes of the value at i, strings with quotes.
func (p *promptWalk) canonical(i uint32) []byte {
	n := &p.nodes[i]
	if n.kind == kindString {
		return p.out[n.start-1 : n.end+1]
	}
	return p.out[n.start:n.end]
}

// inner returns the canonical bytes of the string at i without its quotes.
func (p *promptWalk) inner(i uint32) []byte {
	n := &p.nodes[i]
	return p.out[n.start:n.end]
}

// hash walks the document that w has written.
func (p *promptWalk) hash(w *writer, h *hasher, api API, r rule) {
	*p = promptWalk{
		doc: &w.doc, hasher: h, api: api, out: w.out, root: w.root, order: w.order, moved: w.moved,
		later: p.later[:0],
	}
	if w.entry != nil {
		p.tools = w.entry.form(w.sortProps).hash
	}
	p.reset()
	p.bytes(tagVersion, []byte(keyVersion))
	p.tag(tagVersion, int(p.api))
	p.headFields(r)
	p.mark(HeadFields)
	p.toolFields(r)
	p.systemFields(r)
	p.promptFields(r)
	if !p.headDone {
		p.headHash, p.headDone = p.state, true
	}
	if !p.rootDone {
		p.rootHash = p.headHash
	}
	p.tailFields(r)
}

// each calls f for the members of the root with that use which were written,
// in canonical order, null ones left out: null is the default of all of them.
func (p *promptWalk) each(r rule, u use, f func(f *field, val uint32)) {
	for _, m := range p.root {
		key := m.key()
		if key == 0 {
			continue // added by the writer
		}
		field, val := &fields[r][p.nodes[key].name], key+1
		if field.use == u && p.kind(val) != kindNull && p.nodes[val].flags&flagDropped == 0 {
			f(field, val)
		}
	}
}

func (p *promptWalk) headFields(r rule) {
	p.each(r, useModel, func(f *field, val uint32) { p.field(f.name, p.canonical(val)) })
	p.each(r, useHead, func(f *field, val uint32) {
		value := p.canonical(val)
		switch f.id {
		case nAddSpecialTokens:
			standard := kindTrue
			if p.api == Chat {
				standard = kindFalse
			}
			if p.kind(val) == standard {
				return
			}
		case nChatTemplateKwargs:
			if string(value) == "{}" {
				return
			}
		case nThinking, nOutputConfig:
			if p.kind(val) == kindObject {
				if val = p.ofPrompt(f.id, val); val == 0 {
					return
				}
				value = p.canonical(val)
			}
		case nDocuments:
			p.offset += len(value)
		}
		p.field(f.name, value)
	})
}

// ofPrompt returns the member of an Anthropic setting, the object at i, that
// reaches the prompt, or 0. vLLM takes output_config.effort as reasoning_effort
// and the rest of it for the answer; thinking.type, which it is about to read
// (vllm#53058) and SGLang reads, switches the template's thinking on, while
// budget_tokens and display are about the answer.
func (p *promptWalk) ofPrompt(setting nameID, i uint32) uint32 {
	name := nType
	if setting == nOutputConfig {
		name = nEffort
	}
	if val := p.find(i, name); val != 0 && p.kind(val) != kindNull {
		return val
	}
	return 0
}

func (p *promptWalk) toolFields(r rule) {
	present := false
	p.each(r, useTools, func(f *field, val uint32) {
		present = true
		list := p.canonical(val)
		hash := p.tools
		if p.kind(val) != kindCached {
			hash = xxhash.Sum64(list)
		}
		p.bytes(tagTools, []byte(f.name))
		p.number(hash)
		p.offset += len(list)
	})
	if present {
		p.mark(Tools)
	}
}

func (p *promptWalk) systemFields(r rule) {
	p.each(r, useSystem, func(f *field, val uint32) {
		p.startMessage(-1)
		p.bytes(tagPart, []byte(f.name))
		p.system = p.api == Messages
		p.contentOf(val)
		p.tag(tagClose, 0)
		p.mark(System)
	})
}

func (p *promptWalk) promptFields(r rule) {
	p.each(r, usePrompt, func(f *field, val uint32) {
		switch {
		case p.kind(val) == kindArray && (f.rule == ruleMessageList || f.rule == ruleItemList):
			// Its elements are on the writer's order stack, and nothing else is.
			p.elem = ruleMessage
			if f.rule == ruleItemList {
				p.elem = ruleItem
			}
			for index, node := range p.order {
				p.messageAt(index, node)
			}
		case p.kind(val) == kindArray && p.isTokens(val):
			p.single(0, func() { p.tokens(val) })
		case p.kind(val) == kindArray:
			index := 0
			for k, end := val+1, p.nodes[val].aux; k < end; k = p.next(k) {
				p.single(index, func() { p.element(k) })
				index++
			}
		default:
			p.single(0, func() { p.element(val) })
		}
	})
}

// single hashes one text or list of tokens as a user's message.
func (p *promptWalk) single(index int, body func()) {
	p.endHead()
	p.startMessage(index)
	p.bytes(tagRole, userRole)
	p.offset += len(userRole)
	body()
	p.endMessage(true)
}

var userRole = []byte("user")

func (p *promptWalk) element(i uint32) {
	switch {
	case p.kind(i) == kindString:
		p.text(tagText, p.inner(i), int(p.nodes[i].aux))
	case p.kind(i) == kindArray && p.isTokens(i):
		p.tokens(i)
	default:
		p.bytes(tagMedia, p.canonical(i))
	}
}

// tokens hashes a list of token ids, its brackets aside, so that a list shares
// the boundaries of every list it continues.
func (p *promptWalk) tokens(i uint32) {
	b := p.canonical(i)
	b = b[1 : len(b)-1]
	p.text(tagTokens, b, len(b))
}

// endHead takes the state here as the head, unless it has been taken.
func (p *promptWalk) endHead() {
	if !p.headDone {
		p.headHash, p.headDone = p.state, true
	}
}

// endMessage closes a message with its boundary. The first of a user is the
// end of the root.
func (p *promptWalk) endMessage(user bool) {
	p.tag(tagClose, 0)
	p.mark(Turn)
	if user && !p.rootDone {
		p.rootDone = true
		p.rootHash = p.state
		if p.capped {
			p.rootHash = p.cap
		}
	}
}

func (p *promptWalk) tailFields(r rule) {
	present := false
	p.each(r, useTail, func(f *field, val uint32) {
		standard := kindTrue
		if f.id == nContinueFinalMessage || p.api == Embeddings {
			standard = kindFalse
		}
		if p.kind(val) == standard {
			return
		}
		if !present {
			p.tag(tagTail, 0)
			present = true
		}
		p.field(f.name, p.canonical(val))
	})
	if present {
		p.mark(Tail)
	}
}

// fields hashes the members whose names are at the given nodes, in canonical
// order.
func (p *promptWalk) fields(keys []uint32) {
	if len(keys) > 1 {
		slices.SortFunc(keys, func(a, b uint32) int { return int(p.nodes[a].start) - int(p.nodes[b].start) })
	}
	for _, key := range keys {
		p.bytes(tagField, p.inner(key))
		p.bytes(tagField, p.canonical(key+1))
		p.offset += p.size(key + 1)
	}
}

// size returns how much text the value at i is: a string by what it spells,
// anything else by its JSON.
func (p *promptWalk) size(i uint32) int {
	n := &p.nodes[i]
	if n.kind == kindString {
		return int(n.aux)
	}
	return int(n.end - n.start)
}

// written returns the value of the member of the object at i with that name,
// which has been written, or 0.
func (p *promptWalk) written(i uint32, name nameID) uint32 {
	if val := p.find(i, name); val != 0 && p.nodes[val].flags&flagDropped == 0 {
		return val
	}
	return 0
}

// spells reports whether the value at i, which has been written, is the
// string s.
func (p *promptWalk) spells(i uint32, s string) bool {
	return p.kind(i) == kindString && string(p.inner(i)) == s
}
