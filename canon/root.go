package canon

// rootRank is the order of the root: model, tools, what else the prompt is
// made of, the messages, and then the rest. What a conversation keeps comes
// first and what a turn changes comes last, so that routers that look at the
// first bytes of a body see the same ones each turn.
func rootRank(f *field) uint64 {
	switch f.use {
	case useModel:
		return 0
	case useTools:
		if f.id == nTools {
			return 1
		}
		return 2
	case useHead, useSystem:
		return 3
	case usePrompt:
		return 4
	}
	return 5
}

// document writes the root.
func (w *writer) document(r rule) {
	w.collect(0)
	w.keepTools = w.find(0, nToolChoice) != 0
	for k, m := range w.members {
		w.members[k] = m | member(rootRank(&fields[r][w.nodes[m.key()].name])<<rootShift)
	}
	if tools := w.find(0, nTools); tools != 0 && w.kind(tools) == kindArray {
		n := &w.nodes[tools]
		w.rawTools = w.src[n.start:n.end]
	}
	w.sortProps = w.strong && !w.constrained()
	if w.addUsage {
		w.addStreamOptions()
	}
	w.sortMembers(0)
	w.root = append(w.root[:0], w.members...)
	w.memberList(0, 0, r)
	w.members = w.members[:0]
}

// constrained reports whether the request asks for structured output, by the
// names that OpenAI and vLLM give it, or forces a tool call, which vLLM decodes
// under the schema of the tool.
func (w *writer) constrained() bool {
	for k, end := uint32(1), w.nodes[0].aux; k < end; k = w.next(k + 1) {
		val := k + 1
		if w.kind(val) == kindNull {
			continue
		}
		switch w.nodes[k].name {
		case nResponseFormat, nStructuredOutputs, nGuidedJson, nGuidedRegex, nGuidedChoice,
			nGuidedGrammar, nStructuralTag, nOutputConfig, nOutputFormat:
			return true
		case nText: // of Responses
			if w.find(val, nFormat) != 0 {
				return true
			}
		case nToolChoice:
			if t := w.find(val, nType); t != 0 { // of Messages
				val = t
			}
			if !w.is(val, "auto") && !w.is(val, "none") {
				return true
			}
		}
	}
	return false
}

// addStreamOptions puts stream_options in the place of a null one, or adds it.
func (w *writer) addStreamOptions() {
	const rank = 5 << rootShift
	for k, m := range w.members {
		if w.nodes[m.key()].name == nStreamOptions {
			if w.kind(m.key()+1) == kindNull {
				w.members[k] = newMember(0, 2*uint64(nStreamOptions)) | rank
			}
			return
		}
	}
	w.members = append(w.members, newMember(0, 2*uint64(nStreamOptions))|rank)
}

// includeUsage adds include_usage to the members of stream_options, unless it
// is there; memberList then writes it as true.
func (w *writer) includeUsage(base int) {
	if !w.addUsage {
		return
	}
	for _, m := range w.members[base:] {
		if w.nodes[m.key()].name == nIncludeUsage {
			return
		}
	}
	w.members = append(w.members, newMember(0, 2*uint64(nIncludeUsage)))
}
