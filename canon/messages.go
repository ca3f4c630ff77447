package canon

// content writes message content that is a list. A single text part and the
// string it holds are the same tokens in vLLM, whatever the template (its
// _parse_chat_message_content turns the string into such a part), so it is
// written as the string; two parts are never joined, since templates disagree
// on what stands between them.
func (w *writer) content(i uint32) {
	if w.stable {
		if text := w.onlyText(i); text != 0 {
			w.text(text)
			list, part := &w.nodes[i], &w.nodes[i+1]
			*part = w.nodes[text]
			list.start, list.end = part.start-1, part.end+1
			list.flags |= flagCollapsed
			return
		}
	}
	first, rest := movedIn(w.moved, i)
	at := uint32(len(w.out))
	w.out = append(w.out, '[')
	for _, k := range first {
		if w.out[len(w.out)-1] != '[' {
			w.out = append(w.out, ',')
		}
		w.value(k, rulePart)
	}
	for k, end := rest, w.nodes[i].aux; k < end; {
		if k > i+1 {
			w.out = append(w.out, ',')
		}
		val := k
		k = w.next(k)
		w.value(val, rulePart)
	}
	w.out = append(w.out, ']')
	w.placed(i, at)
}

// onlyText returns the text of the list at i when it is one text part and
// nothing else, cache markers aside, or 0.
func (w *writer) onlyText(i uint32) uint32 {
	part := i + 1
	if part >= w.nodes[i].aux || w.next(part) != w.nodes[i].aux || w.kind(part) != kindObject {
		return 0
	}
	typed, text := false, uint32(0)
	for k, end := part+1, w.nodes[part].aux; k < end; k = w.next(k + 1) {
		switch w.nodes[k].name {
		case nType:
			typed = w.is(k+1, "text")
		case nText:
			if w.kind(k+1) == kindString {
				text = k + 1
			}
		case nUuid:
			if w.kind(k+1) != kindNull {
				return 0
			}
		case nCacheControl, nPromptCacheBreakpoint:
		default:
			return 0
		}
	}
	if !typed || text == 0 {
		return 0
	}
	// Of Anthropic's shape vLLM leaves out two blocks that it would read as a string.
	if w.api == Messages && (w.nodes[text].aux == 0 || isAttribution(w.decoded(text))) {
		return 0
	}
	return text
}

// renameReasoning gives the reasoning_content of an assistant message, whose
// members are those from base on, the name reasoning, unless the message has a
// reasoning already. vLLM versions differ in which of the two they read.
func (w *writer) renameReasoning(base int) {
	var from *member
	assistant := false
	for k := base; k < len(w.members); k++ {
		key := w.members[k].key()
		switch w.nodes[key].name {
		case nRole:
			assistant = w.is(key+1, "assistant")
		case nReasoning:
			if !w.stable || w.kind(key+1) != kindNull {
				return
			}
		case nReasoningContent:
			from = &w.members[k]
		}
	}
	if !assistant || from == nil || w.kind(from.key()+1) == kindNull {
		return
	}
	key := from.key()
	*from = newMember(key, 2*uint64(nReasoning))
	// The new name is spelled in the arena, where names with escapes are.
	at := uint32(len(w.arena))
	w.arena = append(w.arena, knownNames[nReasoning]...)
	n := &w.nodes[key]
	n.start, n.end, n.name = at, uint32(len(w.arena)), nReasoning
	n.flags |= flagArena
}

// messages writes a list of messages, in the order that completed batches of
// tool results get.
func (w *writer) messages(i uint32) {
	base := len(w.order)
	for k, end := i+1, w.nodes[i].aux; k < end; k = w.next(k) {
		w.order = append(w.order, k)
	}
	if w.stable {
		if w.api == Messages {
			w.orderBlocks(base)
		} else {
			w.orderResults(base)
		}
	}
	w.listInOrder(i, base, ruleMessage)
	// The order stays on the stack: the hash walks the messages by it.
}

// items writes the input of a Responses request.
func (w *writer) items(i uint32) {
	base := len(w.order)
	for k, end := i+1, w.nodes[i].aux; k < end; k = w.next(k) {
		w.order = append(w.order, k)
	}
	if w.stable {
		w.orderOutputs(base)
	}
	w.listInOrder(i, base, ruleItem)
}
