package middleware

// read takes what a judge asks of the chunk that q is, as far as it is what nearly
// all are: no error, no second member of a name that counts. c is of no use where
// it returns false. Its values lie in q.
func (c *chatChunk) read(q quick) bool {
	*c = chatChunk{Choices: c.Choices[:0]}
	var seen met
	rest, ok := q.object(func(name []byte, value quick) (rest quick, ok bool) {
		switch string(name) {
		case "choices":
			rest, ok = value.list(c.choice)
			return rest, ok && seen.first(1)
		case "usage":
			if rest, ok = value.literal("null"); !ok {
				c.Usage = new(wireUsage)
				rest, ok = c.Usage.read(value, "")
			}
			return rest, ok && seen.first(2)
		case "object":
			kind, rest, ok := value.word()
			return rest, ok && string(kind) != "error"
		case "error":
			return value.literal("null")
		}
		return value.value(nesting)
	})
	return ok && len(rest.unblank()) == 0
}

// choice takes the choice that q begins with.
func (c *chatChunk) choice(q quick) (rest quick, ok bool) {
	var one chatChoice
	var seen met
	rest, ok = q.object(func(name []byte, value quick) (rest quick, ok bool) {
		switch string(name) {
		case "index":
			one.Index, rest, ok = value.whole()
			return rest, ok && seen.first(1)
		case "finish_reason":
			if rest, ok = value.literal("null"); !ok {
				var text []byte
				text, rest, ok = value.word()
				reason := string(text)
				one.FinishReason = &reason
			}
			return rest, ok && seen.first(2)
		case "text":
			return value.raw(&one.Text)
		case "delta":
			return value.object(one.Delta.member)
		}
		return value.value(nesting)
	})
	c.Choices = append(c.Choices, one)
	return rest, ok
}

// member takes a member of a delta.
func (d *chatDelta) member(name []byte, value quick) (rest quick, ok bool) {
	switch string(name) {
	case "content":
		return value.raw(&d.Content)
	case "reasoning":
		return value.raw(&d.Reasoning)
	case "reasoning_content":
		return value.raw(&d.ReasoningContent)
	case "refusal":
		return value.raw(&d.Refusal)
	case "tool_calls":
		return value.raw(&d.ToolCalls)
	case "function_call":
		return value.raw(&d.FunctionCall)
	case "audio":
		return value.raw(&d.Audio)
	}
	return value.value(nesting)
}

// read takes what a judge asks of the event that q is, as far as it is one of the
// many that bring a piece of the answer: nothing but a type and a delta counts. e
// is of no use where it returns false. The delta lies in q.
func (e *typedEvent) read(q quick) bool {
	*e = typedEvent{}
	var seen met
	rest, ok := q.object(func(name []byte, value quick) (rest quick, ok bool) {
		switch string(name) {
		case "type":
			kind, rest, ok := value.word()
			e.Type = string(kind)
			return rest, ok && seen.first(1)
		case "delta":
			return value.raw(&e.Delta)
		case "error", "usage", "response", "message":
			return nil, false
		}
		return value.value(nesting)
	})
	return ok && len(rest.unblank()) == 0
}
