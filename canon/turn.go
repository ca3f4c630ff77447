package canon

// messageAt hashes the message, or the item of a Responses request, at node i.
// What a chat template prints ahead of the text comes ahead of it here: a
// boundary inside the text must tell two roles or names apart.
func (p *promptWalk) messageAt(index int, i uint32) {
	if p.kind(i) != kindObject {
		p.endHead()
		p.startMessage(index)
		p.bytes(tagMedia, p.canonical(i))
		p.endMessage(false)
		return
	}
	role := p.written(i, "role")
	leading := !p.headDone && role != 0 && (p.spells(role, "system") || p.spells(role, "developer"))
	if !leading {
		p.endHead()
	}
	p.startMessage(index)
	if role != 0 {
		p.bytes(tagRole, p.inner(role))
		p.offset += int(p.nodes[role].aux)
	}
	var content, calls, reasoning uint32
	for k, end := i+1, p.nodes[i].aux; k < end; k = p.next(k + 1) {
		val := k + 1
		if p.nodes[val].flags&flagDropped != 0 || p.isNothing(k) {
			continue
		}
		switch string(p.inner(k)) {
		case "role", "cache_control", "prompt_cache_breakpoint":
		case "content":
			content = val
		case "tool_calls":
			calls = val
		case "type":
			if !p.spells(val, "message") {
				p.bytes(tagPart, p.canonical(val))
			}
		case "reasoning":
			reasoning = val
		case "reasoning_content":
			if p.written(i, "reasoning") == 0 {
				reasoning = val
			} else {
				p.rest = append(p.rest, k)
			}
		case "id", "status":
			if p.api != Responses { // there they are bookkeeping of the server
				p.rest = append(p.rest, k)
			}
		case "name", "tool_call_id", "call_id":
			p.ahead = append(p.ahead, k)
		default:
			p.rest = append(p.rest, k)
		}
	}
	p.ahead = p.fields(p.ahead)
	if reasoning != 0 {
		p.field("reasoning", p.canonical(reasoning))
		p.offset += p.size(reasoning)
	}
	if content != 0 {
		p.contentOf(content)
	}
	if calls != 0 {
		p.callsOf(calls)
	}
	p.rest = p.fields(p.rest)
	if leading {
		p.tag(tagClose, 0)
		p.mark(System)
		return
	}
	p.endMessage(role != 0 && p.spells(role, "user"))
}

// isNothing reports whether the member of a message at k is a null that the
// engine reads as absent. Stable has dropped it; Wire sends it.
func (p *promptWalk) isNothing(k uint32) bool {
	if p.kind(k+1) != kindNull {
		return p.kind(k+1) == kindArray && p.nodes[k+1].aux == k+2 && string(p.inner(k)) == "tool_calls"
	}
	if string(p.inner(k)) == "content" {
		return true
	}
	f := shapes[p.elem].find(p.inner(k))
	return f != nil && f.drop&whenNull != 0
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
		for k, end := i+1, p.nodes[i].aux; k < end; k = p.next(k) {
			switch p.kind(k) {
			case kindString:
				p.text(tagText, p.inner(k), int(p.nodes[k].aux))
			case kindObject:
				p.part(k)
			default:
				p.bytes(tagMedia, p.canonical(k))
			}
		}
	default:
		p.bytes(tagMedia, p.canonical(i))
	}
}

// part hashes one part. Of a text part vLLM reads the text alone; another part
// is its type and its members.
func (p *promptWalk) part(i uint32) {
	kind, text := p.written(i, "type"), p.written(i, "text")
	if kind != 0 && text != 0 && (p.spells(kind, "text") || p.spells(kind, "input_text") || p.spells(kind, "output_text")) {
		switch p.kind(text) {
		case kindString:
			p.text(tagText, p.inner(text), int(p.nodes[text].aux))
			return
		case kindNull:
			return
		}
	}
	p.tag(tagPart, 0)
	if kind != 0 {
		p.bytes(tagPart, p.canonical(kind))
	}
	uuid := p.written(i, "uuid")
	if uuid != 0 && p.kind(uuid) == kindString && p.nodes[uuid].aux > 0 {
		// vLLM then knows the input by its uuid and does not hash the pixels.
		p.field("uuid", p.canonical(uuid))
		p.tag(tagClose, 0)
		return
	}
	for k, end := i+1, p.nodes[i].aux; k < end; k = p.next(k + 1) {
		if p.nodes[k+1].flags&flagDropped == 0 {
			p.partMember(k)
		}
	}
	p.rest = p.fields(p.rest)
	p.tag(tagClose, 0)
}

// partMember hashes a member of a part that is not a text part, or leaves it
// for p.rest.
func (p *promptWalk) partMember(k uint32) {
	val := k + 1
	switch string(p.inner(k)) {
	case "type", "uuid", "cache_control", "prompt_cache_breakpoint", "detail":
		return // detail: vLLM ignores it
	case "image_url", "video_url", "audio_url":
		if url := p.written(val, "url"); url != 0 {
			val = url
		}
		p.bytes(tagMedia, p.inner(k))
		p.bytes(tagMedia, p.canonical(val))
	case "content", "output", "summary":
		p.bytes(tagPart, p.inner(k))
		rest := p.rest
		p.rest = nil
		p.contentOf(val)
		p.rest = rest
	default:
		p.rest = append(p.rest, k)
	}
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
		for k, end := c+1, p.nodes[c].aux; k < end; k = p.next(k + 1) {
			switch string(p.inner(k)) {
			case "index":
			case "type":
				if !p.spells(k+1, "function") {
					p.rest = append(p.rest, k)
				}
			default:
				p.rest = append(p.rest, k)
			}
		}
		p.rest = p.fields(p.rest)
	}
}
