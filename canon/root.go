package canon

// rootRank is the order of the root: model, tools, what else the prompt is
// made of, the messages, and then the rest. What a conversation keeps comes
// first and what a turn changes comes last, so that routers that look at the
// first bytes of a body see the same ones each turn.
func rootRank(f *field) uint8 {
	if f == nil {
		return 5
	}
	switch f.use {
	case useModel:
		return 0
	case useTools:
		if f.name == "tools" {
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
	choice := false
	structured := false
	options := -1
	for k := range w.members {
		m := &w.members[k]
		m.rank = rootRank(shapes[r].find(m.name))
		switch string(m.name) {
		case "tool_choice":
			choice = true
			structured = structured || !w.is(m.val, "auto") && !w.is(m.val, "none") && w.kind(m.val) != kindNull
		case "stream_options":
			options = k
		case "tools":
			if n := &w.nodes[m.val]; n.kind == kindArray {
				w.rawTools = w.src[n.start:n.end]
			}
		default:
			structured = structured || w.constrains(m)
		}
	}
	w.keepTools = choice
	w.sortProps = w.sortProps && !structured
	if w.addUsage {
		if options < 0 {
			w.members = append(w.members, member{name: []byte("stream_options"), rank: 5, lit: `{"include_usage":true}`})
		} else if m := &w.members[options]; w.kind(m.val) == kindNull {
			m.lit = `{"include_usage":true}`
		}
	}
	sortMembers(w.members)
	w.root = append(w.root[:0], w.members...)
	w.memberList(0, 0, r)
	w.members = w.members[:0]
}

// constrains reports whether a root member asks for structured output, by the
// names that OpenAI and vLLM give it.
func (w *writer) constrains(m *member) bool {
	if w.kind(m.val) == kindNull {
		return false
	}
	switch string(m.name) {
	case "response_format":
		return true
	case "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
		"structural_tag", "output_config", "output_format":
		return true
	case "text": // of Responses
		return w.get(m.val, "format") != 0
	}
	return false
}

// includeUsage sets include_usage among the members of stream_options.
func (w *writer) includeUsage(base int) {
	if !w.addUsage {
		return
	}
	for k := base; k < len(w.members); k++ {
		if string(w.members[k].name) == "include_usage" {
			w.members[k].lit = "true"
			return
		}
	}
	w.members = append(w.members, member{name: []byte("include_usage"), lit: "true"})
}
