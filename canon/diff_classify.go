package canon

import (
	"bytes"
	"fmt"
)

// classify says what sort of difference it is, and more in words.
func (c *comparison) classify() (Change, string) {
	if c.a.Diagnosis.Code != OK || c.b.Diagnosis.Code != OK {
		return c.untouched()
	}
	sa, sb := c.sides()
	switch {
	case sa == nil && sb == nil:
		if ta, tb := c.tails(); ta != nil || tb != nil {
			return TailChange, "a field that changes what follows the last message"
		}
		return Same, ""
	case sa == nil || sb == nil:
		// A message that only goes on, with a call or another part, is another
		// message, unless nothing closes it.
		if m := max(c.a.messages(), c.b.messages()) - 1; c.k > 0 && c.messageOpen(m) {
			return c.history(m)
		}
		return Appended, ""
	}
	if c.a.API == Completions && sa.matches(sb) && (c.off == len(sa.Text) || c.off == len(sb.Text)) {
		return Appended, ""
	}
	switch min(sa.Kind, sb.Kind) {
	case ModelSegment:
		return ModelChange, fmt.Sprintf("%q and %q", bounded(sa.Text), bounded(sb.Text))
	case SaltSegment:
		return SaltChange, "cache_salt differs"
	case TemplateSegment:
		return TemplateChange, nameOfLower(sa, sb) + " differs"
	case ToolSegment:
		return c.tools()
	}
	return c.message()
}

// nameOfLower is the name of the segment that comes first in a prompt.
func nameOfLower(sa, sb *Segment) string {
	if sb.Kind < sa.Kind || sb.Kind == sa.Kind && sb.Name < sa.Name {
		return sb.Name
	}
	return sa.Name
}

func (c *comparison) untouched() (Change, string) {
	first, second := c.a.Diagnosis, c.b.Diagnosis
	switch {
	case first.Code != OK && second.Code != OK && c.k == c.a.end && c.k == c.b.end:
		return Same, ""
	case first.Code == OK:
		return UntouchedBody, "second body: " + second.String()
	case second.Code == OK:
		return UntouchedBody, "first body: " + first.String()
	}
	return UntouchedBody, "both bodies, the second: " + second.String()
}

// messageOpen reports whether the prompts differ inside message m, the last of
// both, because one has something more in it.
func (c *comparison) messageOpen(m int) bool {
	return m >= 0 && c.a.messages() == c.b.messages() && len(c.a.message(m)) > 0 && len(c.b.message(m)) > 0 &&
		c.k > c.a.starts[m] && c.k > c.b.starts[m]
}

// message classifies a difference in system text or in a message.
func (c *comparison) message() (Change, string) {
	sa, sb := c.sides()
	m := min(sa.Message, sb.Message)
	if m >= 0 && c.partsDiffer(m) {
		return ShapeFlip, "the same text, in other parts"
	}
	if !sa.matches(sb) {
		return c.unmatched(m)
	}
	switch sa.Kind {
	case TextSegment:
		return c.text(m)
	case ReasoningSegment:
		if change, detail := c.moved(m); change != Rewritten {
			return change, detail
		}
		return ReasoningOther, ""
	case CallSegment, FieldSegment:
		return c.member(m)
	case MediaSegment:
		if change, detail := c.moved(m); change != Rewritten {
			return change, detail
		}
		return MediaChange, bounded([]byte(sa.Name))
	}
	return c.history(m)
}

// unmatched classifies a message that has a member more than the other.
func (c *comparison) unmatched(m int) (Change, string) {
	sa, sb := c.sides()
	inA := sa.Kind == ReasoningSegment && sa.Message == m
	inB := sb.Kind == ReasoningSegment && sb.Message == m
	if inA != inB {
		if change, detail := c.moved(m); change != Rewritten && change != Branched {
			return change, detail
		}
		if inA {
			return ReasoningLost, "the first has reasoning, the second has none"
		}
		return ReasoningLost, "the second has reasoning, the first has none"
	}
	return c.history(m)
}

// partsDiffer reports whether message m has one text in both prompts, split
// into parts in two ways.
func (c *comparison) partsDiffer(m int) bool {
	ta, na := textOf(c.a.message(m))
	tb, nb := textOf(c.b.message(m))
	return na != nb && na > 0 && nb > 0 && bytes.Equal(ta, tb)
}

func textOf(segments []Segment) (text []byte, parts int) {
	for i := range segments {
		if segments[i].Kind == TextSegment {
			text = append(text, segments[i].Text...)
			parts++
		}
	}
	return text, parts
}

// text classifies a text that differs.
func (c *comparison) text(m int) (Change, string) {
	sa, sb := c.sides()
	system := sa.Role == "system" || sa.Role == "developer"
	if detail, ok := c.volatile(sa, sb, system, m); ok {
		return VolatileChange, detail
	}
	if !system {
		if c.swapped(m) {
			return ResultOrder, "the results of one batch of calls in another order"
		}
		if change, detail := c.moved(m); change == Truncated || change == Inserted {
			return change, detail
		}
	}
	if change, detail, ok := respelledText(sa.Text, sb.Text); ok {
		return change, detail
	}
	if system {
		return SystemText, ""
	}
	return c.history(m)
}

// volatile reports whether a text differs by what looks volatile.
func (c *comparison) volatile(sa, sb *Segment, system bool, m int) (string, bool) {
	va, inA := coverAt(FindVolatile(sa.Text), c.off)
	vb, inB := coverAt(FindVolatile(sb.Text), c.off)
	both := inA && inB && va.Kind == vb.Kind
	alone := bytes.Equal(Steady(sa), Steady(sb))
	if !both && !alone {
		if system && bytes.Equal(withoutDigits(sa.Text), withoutDigits(sb.Text)) {
			return "a number, and nothing else", true
		}
		return "", false
	}
	kind := va.Kind
	if !inA {
		kind = vb.Kind
	}
	rest := ""
	if alone {
		rest = ", and nothing else"
	}
	detail := kind.String() + rest
	if inA && inB {
		detail = fmt.Sprintf("%s, %q and %q%s", kind, bounded(sa.Text[va.Start:va.End]), bounded(sb.Text[vb.Start:vb.End]), rest)
	}
	if system || kind == NonceText || kind == CounterText {
		return detail, true
	}
	// A date in a message is part of the conversation unless the message is the
	// same otherwise and is not one of two questions.
	sameTemplate := both && bytes.Equal(withoutDigits(sa.Text), withoutDigits(sb.Text))
	history := m < c.a.messages()-1 && m < c.b.messages()-1
	if sameTemplate && (history || va.changes(sa.Text)) {
		return detail, true
	}
	return "", false
}

func withoutDigits(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, ch := range text {
		if !isDigit(ch) {
			out = append(out, ch)
		}
	}
	return out
}

// member classifies a difference in a call, an id, a name.
func (c *comparison) member(m int) (Change, string) {
	sa, sb := c.sides()
	if c.swapped(m) {
		return ResultOrder, "the results of one batch of calls in another order"
	}
	if change, detail := c.moved(m); change != Rewritten && change != Branched {
		return change, detail
	}
	switch sa.Name {
	case "id", "tool_call_id", "call_id", "tool_use_id":
		if c.sameButIDs(m) {
			return IDChange, sa.Name + " differs"
		}
	case "function.arguments", "arguments", "input":
		if change, detail, ok := respelledText(sa.Text, sb.Text); ok {
			return change, detail
		}
	}
	return c.history(m)
}

func (c *comparison) sameButIDs(m int) bool {
	strip := func(all []Segment) []Segment {
		var left []Segment
		for _, s := range all {
			switch s.Name {
			case "id", "tool_call_id", "call_id", "tool_use_id":
				continue
			}
			left = append(left, s)
		}
		return left
	}
	return fingerprint(strip(c.a.message(m))) == fingerprint(strip(c.b.message(m)))
}
