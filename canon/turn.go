package canon

import "bytes"

// messageAt hashes the message, or the item of a Responses request, at node i:
// role, names and ids, reasoning, content, tool calls, and what canon does not
// know. What a chat template prints ahead of the text comes ahead of it here: a
// boundary inside the text must tell two roles or names apart.
func (p *promptWalk) messageAt(index int, i uint32) {
	if p.kind(i) != kindObject {
		p.endHead()
		p.answer = false
		p.startMessage(index)
		p.bytes(tagMedia, p.canonical(i))
		p.endMessage(false)
		return
	}
	base := len(p.later)
	var role, kind, name, call, content, calls, reasoning uint32
	for k, end := i+1, p.nodes[i].aux; k < end; k = p.next(k + 1) {
		val := k + 1
		n := &p.nodes[val]
		if n.flags&flagDropped != 0 || n.kind == kindNull && p.isNothing(k) {
			continue
		}
		switch p.nodes[k].name {
		case nRole:
			role = val
		case nContent:
			content = val
		case nToolCalls:
			if p.elem == ruleItem { // a member like any other there, written as one
				p.later = append(p.later, k)
			} else if n.kind != kindArray || n.aux != val+1 { // an empty list is none
				calls = val
			}
		case nType:
			kind = val
		case nName:
			name = val
		case nToolCallId, nCallId:
			switch { // of both, which no API has, call_id is taken
			case call == 0:
				call = val
			case p.nodes[k].name == nCallId:
				call, val = val, call
				fallthrough
			default:
				p.later = append(p.later, val-1)
			}
		case nReasoning:
			reasoning = val
		case nReasoningContent:
			if p.written(i, nReasoning) == 0 {
				reasoning = val
			} else {
				p.later = append(p.later, k)
			}
		case nCacheControl, nPromptCacheBreakpoint:
		case nId, nStatus:
			if p.api != Responses || p.nodes[k].name == nId && isReference(p, i) { // there they are bookkeeping of the server
				p.later = append(p.later, k)
			}
		default:
			p.later = append(p.later, k)
		}
	}
	leading := !p.headDone && role != 0 && (p.spells(role, "system") || p.spells(role, "developer"))
	if !leading {
		p.endHead()
	}
	p.system = p.api == Messages && role != 0 && p.spells(role, "system")
	p.noteAnswer(role, kind)
	p.startMessage(index)
	if role != 0 {
		p.bytes(tagRole, p.inner(role))
		p.offset += p.size(role)
	}
	if kind != 0 && !p.spells(kind, "message") {
		p.sized("type", kind)
	}
	if name != 0 {
		p.sized("name", name)
	}
	if call != 0 {
		p.sized("call", call)
	}
	if reasoning != 0 {
		p.sized("reasoning", reasoning)
	}
	if content != 0 {
		p.contentOf(content)
	}
	if calls != 0 {
		p.callsOf(calls)
	}
	p.flush(base)
	if leading {
		p.tag(tagClose, 0)
		p.mark(System)
		return
	}
	p.endMessage(role != 0 && p.spells(role, "user"))
}

// noteAnswer keeps where the latest stretch of messages that the model wrote
// begins. Besides the assistant's these are, in a Responses request, the
// reasoning and the calls of every kind.
func (p *promptWalk) noteAnswer(role, kind uint32) {
	wrote := role != 0 && p.spells(role, "assistant")
	if p.elem == ruleItem && kind != 0 && p.kind(kind) == kindString {
		name := p.inner(kind)
		wrote = wrote || string(name) == "reasoning" || bytes.HasSuffix(name, []byte("_call"))
	}
	if wrote && !p.answer {
		p.previous = len(p.bounds)
	}
	p.answer = wrote
}

// sized hashes a named value that is part of the prompt's text.
func (p *promptWalk) sized(name string, val uint32) {
	p.field(name, p.canonical(val))
	p.offset += p.size(val)
}

// flush hashes the members that were put off since base, in canonical order.
func (p *promptWalk) flush(base int) {
	p.fields(p.later[base:])
	p.later = p.later[:base]
}

// isNothing reports whether the member of a message at k, a null, is one that
// the engine reads as absent. Stable has dropped it; Wire sends it.
func (p *promptWalk) isNothing(k uint32) bool {
	name := p.nodes[k].name
	return name == nContent || fields[p.elem][name].drop&whenNull != 0
}

// contentOf hashes content: a text, a list of parts, or null, which is
// nothing.
func (p *promptWalk) contentOf(i uint32) {
	switch p.kind(i) {
	case kindNull:
	case kindString:
		p.text(tagText, p.inner(i), int(p.nodes[i].aux))
	case kindArray:
		if p.nodes[i].flags&flagCollapsed != 0 {
			p.text(tagText, p.inner(i+1), int(p.nodes[i+1].aux))
			return
		}
		first, rest := movedIn(p.moved, i)
		for _, k := range first {
			p.partOrText(k)
		}
		for k, end := rest, p.nodes[i].aux; k < end; k = p.next(k) {
			p.partOrText(k)
		}
	default:
		p.bytes(tagMedia, p.canonical(i))
	}
}

func (p *promptWalk) partOrText(k uint32) {
	switch p.kind(k) {
	case kindString:
		p.text(tagText, p.inner(k), int(p.nodes[k].aux))
	case kindObject:
		p.part(k)
	default:
		p.bytes(tagMedia, p.canonical(k))
	}
}

// part hashes one part. Of a text part vLLM reads the text alone; another part
// is its type and its members.
func (p *promptWalk) part(i uint32) {
	kind, text := p.written(i, nType), p.written(i, nText)
	if kind != 0 && text != 0 && (p.spells(kind, "text") || p.spells(kind, "input_text") || p.spells(kind, "output_text")) {
		switch p.kind(text) {
		case kindString:
			if !p.system || !isAttribution(p.inner(text)) {
				p.text(tagText, p.inner(text), int(p.nodes[text].aux))
			}
			return
		case kindNull:
			return
		}
	}
	p.tag(tagPart, 0)
	if kind != 0 {
		p.bytes(tagPart, p.canonical(kind))
	}
	uuid := p.written(i, nUuid)
	if uuid != 0 && p.api != Messages && kind != 0 && p.kind(kind) == kindString && isMedia(p.inner(kind)) && p.kind(uuid) == kindString && p.nodes[uuid].aux > 0 {
		// vLLM then knows the input by its uuid and does not hash the pixels.
		p.field("uuid", p.canonical(uuid))
		p.tag(tagClose, 0)
		return
	}
	base := len(p.later)
	var content uint32
	for k, end := i+1, p.nodes[i].aux; k < end; k = p.next(k + 1) {
		if p.nodes[k+1].flags&flagDropped != 0 {
			continue
		}
		switch p.nodes[k].name {
		case nType, nCacheControl, nPromptCacheBreakpoint:
		case nDetail: // vLLM ignores it
		case nImageUrl, nVideoUrl, nAudioUrl:
			val := k + 1
			if url := p.written(val, nUrl); url != 0 {
				val = url
			}
			p.bytes(tagMedia, p.inner(k))
			p.bytes(tagMedia, p.canonical(val))
		case nContent:
			content = k + 1
		default:
			p.later = append(p.later, k)
		}
	}
	p.flush(base)
	if content != 0 { // of a tool_result, after the id of its call
		system := p.system
		p.system = false
		p.contentOf(content)
		p.system = system
	}
	p.tag(tagClose, 0)
}

// callsOf hashes the tool calls of an assistant: all members but the index,
// which only numbers them within a stream.
func (p *promptWalk) callsOf(i uint32) {
	if p.kind(i) != kindArray {
		p.field("tool_calls", p.canonical(i))
		return
	}
	for c, end := i+1, p.nodes[i].aux; c < end; c = p.next(c) {
		p.tag(tagCall, 0)
		if p.kind(c) != kindObject {
			p.bytes(tagMedia, p.canonical(c))
			continue
		}
		base := len(p.later)
		var function uint32
		for k, end := c+1, p.nodes[c].aux; k < end; k = p.next(k + 1) {
			switch p.nodes[k].name {
			case nIndex:
			case nType:
				if !p.spells(k+1, "function") {
					p.later = append(p.later, k)
				}
			case nFunction:
				if function = k + 1; p.kind(function) != kindObject {
					function = 0
					p.later = append(p.later, k)
				}
			default:
				p.later = append(p.later, k)
			}
		}
		p.flush(base)
		if function != 0 {
			p.tag(tagCall, 1)
			for k, end := function+1, p.nodes[function].aux; k < end; k = p.next(k + 1) {
				p.later = append(p.later, k)
			}
			p.flush(base)
		}
	}
}

// isAttribution reports whether a block of system text is the header that Claude
// Code puts first, with a hash of each request in it. vLLM leaves that block out
// of the prompt (its entrypoints/anthropic/serving.py), so it is not in the key.
func isAttribution(text []byte) bool {
	return bytes.HasPrefix(text, []byte("x-anthropic-billing-header"))
}

// isMedia reports whether a part of that type is an input that vLLM knows by
// its uuid. Of any other part the uuid is one more member.
func isMedia(typ []byte) bool {
	switch string(typ) {
	case "image_url", "image_pil", "image_embeds", "input_image", "video_url", "audio_url", "audio_embeds", "input_audio":
		return true
	}
	return false
}

// isReference reports whether the item at i stands for one that the server
// holds, by its id. The type may be left out.
func isReference(p *promptWalk, i uint32) bool {
	typ := p.written(i, nType)
	return typ != 0 && p.spells(typ, "item_reference") ||
		(typ == 0 || p.kind(typ) == kindNull) && p.find(i, nRole) == 0
}
