package canon

// messageAt adds the message, or the item of a Responses request, at i: its
// role, its names and ids, reasoning, content, tool calls, and what canon does
// not know.
func (o *outliner) messageAt(path string, i uint32) {
	if o.kind(i) != kindObject {
		o.value(MediaSegment, "", path, i, 0)
		return
	}
	var known [8]uint32 // by place in messageFields
	var rest []uint32
	for k, end := i+1, o.nodes[i].aux; k < end; k = o.next(k + 1) {
		name := o.text(k)
		if place := messageField(string(name)); place >= 0 {
			known[place] = k + 1
		} else if !o.skipped(name, k+1) || string(name) == "id" && o.kind(k+1) != kindNull && o.isReference(i) {
			rest = append(rest, k)
		}
	}
	if role := known[fieldRole]; role != 0 {
		if o.kind(role) == kindString {
			o.role = string(o.text(role))
		}
		o.sized(RoleSegment, "role", path+".role", role)
	} else if t := known[fieldType]; t != 0 {
		o.role = roleOfItem(string(o.valueOf(t)))
	}
	for place := fieldType; place <= fieldCallID; place++ {
		val, name := known[place], messageFields[place]
		if val == 0 || o.kind(val) == kindNull || name == "type" && o.spells(val, "message") {
			continue
		}
		o.sized(FieldSegment, name, path+"."+name, val)
	}
	if r := known[fieldReasoning]; r != 0 && o.kind(r) != kindNull {
		o.sized(ReasoningSegment, "reasoning", path+".reasoning", r)
	}
	if r := o.member(i, "reasoning_content"); r != 0 && o.kind(r) != kindNull {
		if old := known[fieldReasoning]; old == 0 || o.kind(old) == kindNull {
			o.sized(ReasoningSegment, "reasoning", path+".reasoning_content", r)
		} else {
			o.sized(FieldSegment, "reasoning_content", path+".reasoning_content", r)
		}
	}
	if c := known[fieldContent]; c != 0 {
		o.content("content", path+".content", c)
	}
	if c := known[fieldCalls]; c != 0 {
		o.calls(path+".tool_calls", c)
	}
	for _, k := range rest {
		name := string(o.text(k))
		kind := FieldSegment
		switch {
		case name == "arguments": // of a function_call item
			kind = CallSegment
		case name == "output" && o.kind(k+1) == kindString:
			kind = TextSegment
		}
		o.sized(kind, name, dotted(path, name), k+1)
	}
}

func (o *outliner) isReference(i uint32) bool {
	typ := o.member(i, "type")
	return typ != 0 && o.spells(typ, "item_reference") ||
		(typ == 0 || o.kind(typ) == kindNull) && o.member(i, "role") == 0
}

// The members of a message that have a place of their own, in the order in
// which they are hashed.
const (
	fieldRole = iota
	fieldType
	fieldName
	fieldToolCallID
	fieldCallID
	fieldReasoning
	fieldContent
	fieldCalls
)

var messageFields = [...]string{"role", "type", "name", "tool_call_id", "call_id", "reasoning", "content", "tool_calls"}

func messageField(name string) int {
	for i, f := range messageFields {
		if f == name {
			return i
		}
	}
	return -1
}

// skipped reports whether a member of a message is not in the prompt, or is
// taken elsewhere.
func (o *outliner) skipped(name []byte, val uint32) bool {
	switch string(name) {
	case "reasoning_content", "cache_control", "prompt_cache_breakpoint":
		return true
	case "id", "status":
		if o.out.API == Responses {
			return true
		}
	}
	if o.kind(val) != kindNull {
		return false
	}
	switch string(name) { // null optionals that Wire leaves in place
	case "refusal", "audio", "annotations", "function_call":
		return o.out.API != Responses
	case "encrypted_content":
		return o.out.API == Responses
	}
	return false
}

// roleOfItem is the role in which an item of a Responses request stands that
// names none.
func roleOfItem(typ string) string {
	switch typ {
	case "function_call_output":
		return "tool"
	case "function_call", "reasoning":
		return "assistant"
	}
	return ""
}

// content adds content: a text, a list of parts, or nothing.
func (o *outliner) content(name, path string, i uint32) {
	switch o.kind(i) {
	case kindNull:
	case kindString:
		o.sized(TextSegment, name, path, i)
	case kindArray:
		index := 0
		for k, end := i+1, o.nodes[i].aux; k < end; k = o.next(k) {
			o.part(name, indexed(path, index), k)
			index++
		}
	default:
		o.value(MediaSegment, name, path, i, 0)
	}
}

// part adds one part of a content: its text, or its other members.
func (o *outliner) part(name, path string, i uint32) {
	switch o.kind(i) {
	case kindString:
		o.sized(TextSegment, name, path, i)
		return
	case kindObject:
	default:
		o.value(MediaSegment, name, path, i, 0)
		return
	}
	typ, text := o.member(i, "type"), o.member(i, "text")
	if typ != 0 && text != 0 && (o.spells(typ, "text") || o.spells(typ, "input_text") || o.spells(typ, "output_text")) {
		switch o.kind(text) {
		case kindString:
			if o.out.API != Messages || o.role != "system" || name == "content.content" || !isAttribution(o.text(text)) {
				o.sized(TextSegment, name, path+".text", text)
			}
			return
		case kindNull:
			return
		}
	}
	if typ != 0 {
		o.value(MediaSegment, name+".type", path+".type", typ, 0)
	} else {
		o.add(MediaSegment, name+".type", path, nil, 0)
	}
	if uuid := o.member(i, "uuid"); uuid != 0 && o.out.API != Messages && typ != 0 && o.kind(typ) == kindString && isMedia(o.text(typ)) && o.kind(uuid) == kindString && o.nodes[uuid].aux > 0 {
		o.value(MediaSegment, name+".uuid", path+".uuid", uuid, 0)
		return
	}
	var inside uint32
	for k, end := i+1, o.nodes[i].aux; k < end; k = o.next(k + 1) {
		member, val := string(o.text(k)), k+1
		switch member {
		case "type", "cache_control", "prompt_cache_breakpoint", "detail":
		case "image_url", "video_url", "audio_url":
			if url := o.member(val, "url"); url != 0 {
				o.value(MediaSegment, name+"."+member, path+"."+member+".url", url, 0)
				continue
			}
			o.value(MediaSegment, name+"."+member, path+"."+member, val, 0)
		case "content":
			inside = val
		case "input": // of a tool_use block
			o.sized(CallSegment, member, dotted(path, member), val)
		default:
			o.sized(FieldSegment, member, dotted(path, member), val)
		}
	}
	if inside != 0 {
		role := o.role
		if typ != 0 && o.spells(typ, "tool_result") {
			o.role = "tool"
		}
		o.content(name+".content", path+".content", inside)
		o.role = role
	}
}

// calls adds the tool calls of an assistant, all members but the index.
func (o *outliner) calls(path string, i uint32) {
	if o.kind(i) != kindArray {
		if o.kind(i) != kindNull {
			o.value(CallSegment, "tool_calls", path, i, 0)
		}
		return
	}
	index := 0
	for c, end := i+1, o.nodes[i].aux; c < end; c = o.next(c) {
		at := indexed(path, index)
		index++
		if o.kind(c) != kindObject {
			o.value(MediaSegment, "tool_calls", at, c, 0)
			continue
		}
		o.add(CallSegment, "call", at, nil, 0) // tells an empty call from none
		function := o.member(c, "function")
		if function != 0 && o.kind(function) != kindObject {
			function = 0
		}
		for k, end := c+1, o.nodes[c].aux; k < end; k = o.next(k + 1) {
			name := string(o.text(k))
			if name == "index" || name == "type" && o.spells(k+1, "function") || k+1 == function {
				continue
			}
			o.sized(CallSegment, name, dotted(at, name), k+1)
		}
		if function == 0 {
			continue
		}
		for k, end := function+1, o.nodes[function].aux; k < end; k = o.next(k + 1) {
			name := "function." + string(o.text(k))
			o.sized(CallSegment, name, dotted(at, name), k+1)
		}
	}
}
