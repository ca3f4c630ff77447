package canon

import "bytes"

// view is an outline with its messages marked out.
type view struct {
	Outline
	end    int   // segments before the tail
	starts []int // first segment of each message, and the end
	prints []uint64
}

func newView(o Outline) view {
	v := view{Outline: o, end: len(o.Segments)}
	for v.end > 0 && o.Segments[v.end-1].Kind == TailSegment {
		v.end--
	}
	last := -1
	for i := range o.Segments[:v.end] {
		if m := o.Segments[i].Message; m != last {
			for ; last < m; last++ {
				v.starts = append(v.starts, i)
			}
		}
	}
	v.starts = append(v.starts, v.end)
	return v
}

// messages returns how many there are.
func (v *view) messages() int { return len(v.starts) - 1 }

// message returns the segments of message m, none when it has no such.
func (v *view) message(m int) []Segment {
	if m < 0 || m >= v.messages() {
		return nil
	}
	return v.Segments[v.starts[m]:v.starts[m+1]]
}

// print returns the fingerprint of message m.
func (v *view) print(m int) uint64 {
	if v.prints == nil {
		v.prints = make([]uint64, v.messages())
		for i := range v.prints {
			v.prints[i] = fingerprint(v.message(i))
		}
	}
	return v.prints[m]
}

// comparison is two prompts and the first place at which they differ.
type comparison struct {
	a, b   view
	k      int // first segment that differs
	off    int // byte of its text
	shared int // bytes of prompt before that
}

func newComparison(a, b Outline) *comparison {
	c := &comparison{a: newView(a), b: newView(b)}
	for c.k < c.a.end && c.k < c.b.end && c.a.Segments[c.k].Same(&c.b.Segments[c.k]) {
		c.shared += c.a.Segments[c.k].Size
		c.k++
	}
	if sa, sb := c.sides(); sa != nil && sb != nil && sa.matches(sb) {
		c.off = commonPrefix(sa.Text, sb.Text)
		c.off = min(runeStart(sa.Text, c.off), runeStart(sb.Text, c.off))
		if sa.Kind == TokensSegment {
			c.off = wholeTokens(sa.Text, sb.Text, c.off)
		}
		c.shared += min(c.off, sa.Size, sb.Size)
	}
	return c
}

// sides returns the segments that differ; nil is for a prompt that has ended.
func (c *comparison) sides() (sa, sb *Segment) {
	if c.k < c.a.end {
		sa = &c.a.Segments[c.k]
	}
	if c.k < c.b.end {
		sb = &c.b.Segments[c.k]
	}
	return sa, sb
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i+64 <= n && bytes.Equal(a[i:i+64], b[i:i+64]) {
		i += 64
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// wholeTokens moves off back to the end of a token id that both lists have.
func wholeTokens(a, b []byte, off int) int {
	ends := func(t []byte) bool { return off == len(t) || t[off] == ',' }
	if ends(a) && ends(b) {
		return off
	}
	return max(0, bytes.LastIndexByte(a[:off], ','))
}

// point classifies the difference and describes where it is.
func (c *comparison) point() Point {
	p := Point{Message: -1, Shared: c.shared}
	p.Change, p.Detail = c.classify()
	if p.Change == Same {
		return p
	}
	sa, sb := c.sides()
	switch p.Change {
	case TailChange:
		sa, sb = c.tails()
	case UntouchedBody:
		d := c.b.Diagnosis
		if d.Code == OK {
			d = c.a.Diagnosis
		}
		p.Path, p.Offset, p.Lost = d.Path, d.Offset, min(c.a.Size, c.b.Size)-c.shared
		return p
	}
	at := extra(sa, sb)
	p.Path, p.Message, p.Role, p.Offset = at.Path, at.Message, bounded([]byte(at.Role)), c.off
	if sa != nil {
		p.A = excerpt(sa.Text, c.off)
	}
	if sb != nil {
		p.B = excerpt(sb.Text, c.off)
	}
	switch {
	case p.Change == ToolOrder || p.Change == ToolSet: // one tool and another: what they have in common means nothing
		p.Offset, p.A, p.B = 0, "", ""
		if sa != nil && sa.Kind == ToolSegment {
			p.A = bounded(sa.Text)
		}
		if sb != nil && sb.Kind == ToolSegment {
			p.B = bounded(sb.Text)
		}
	case at.Kind == ToolSegment && sa != nil && sb != nil && sa.Kind == sb.Kind:
		path, off, text := leafAt(sb.Text, c.off)
		_, offA, textA := leafAt(sa.Text, c.off)
		p.Path, p.Offset = at.Path+path, off
		p.A, p.B = excerpt(textA, offA), excerpt(text, off)
	}
	if !p.Change.Natural() {
		p.Lost = min(c.a.Size, c.b.Size) - c.shared
	}
	return p
}

// extra returns the segment to name: the second, or the one that the other
// prompt lacks there.
func extra(sa, sb *Segment) *Segment {
	switch {
	case sb == nil:
		return sa
	case sa == nil || sa.matches(sb):
		return sb
	case sa.Message != sb.Message:
		if sa.Message < sb.Message {
			return sa
		}
		return sb
	case sa.Kind < sb.Kind:
		return sa
	}
	return sb
}

// tails returns the first tail fields that differ.
func (c *comparison) tails() (sa, sb *Segment) {
	for i := 0; ; i++ {
		sa, sb = nil, nil
		if c.a.end+i < len(c.a.Segments) {
			sa = &c.a.Segments[c.a.end+i]
		}
		if c.b.end+i < len(c.b.Segments) {
			sb = &c.b.Segments[c.b.end+i]
		}
		if sa == nil || sb == nil || !sa.Same(sb) {
			return sa, sb
		}
	}
}

// leafAt finds the innermost value at byte off of a JSON text: its path with a
// leading dot, the offset in its own text, and that text.
func leafAt(text []byte, off int) (path string, at int, leaf []byte) {
	var d reader
	if !d.read(text) {
		return "", off, text
	}
	best := uint32(0)
	for i := uint32(0); int(i) < len(d.nodes); {
		n := &d.nodes[i]
		switch from, to := int(n.start), int(n.end); {
		case n.flags&flagArena != 0: // an escaped name's span is not in text
			i++
		case off > to && n.kind >= kindArray: // behind all of it
			i = n.aux
		case off >= from && off <= to:
			best = i
			i++
		default:
			i++
		}
	}
	if best == 0 {
		return "", off, text
	}
	n := &d.nodes[best]
	path = d.pathTo(best)
	if path != "" && path[0] != '[' {
		path = "." + path
	}
	if n.kind != kindString {
		return path, off - int(n.start), d.valueOf(best)
	}
	raw := text[n.start:n.end]
	return path, len(appendDecoded(nil, wholeEscapes(raw, off-int(n.start)))), d.text(best)
}

// wholeEscapes returns the first n bytes of the spelling of a string, without
// an escape that they end inside of.
func wholeEscapes(raw []byte, n int) []byte {
	n = min(n, len(raw))
	for i := 0; i < n; {
		size := 1
		if raw[i] == '\\' {
			_, size = unescape(raw[i:])
		}
		if i+size > n {
			return raw[:i]
		}
		i += size
	}
	return raw[:n]
}

// sharedWithoutVolatile returns how many bytes of prompt the two share when
// what looks volatile is taken out of system text and tools.
func (c *comparison) sharedWithoutVolatile() int {
	shared := 0
	for k := 0; k < c.a.end && k < c.b.end; k++ {
		sa, sb := &c.a.Segments[k], &c.b.Segments[k]
		if sa.Same(sb) {
			shared += sa.Size
			continue
		}
		if !sa.matches(sb) {
			break
		}
		ta, tb := Steady(sa), Steady(sb)
		n := commonPrefix(ta, tb)
		shared += min(n, sa.Size, sb.Size)
		if n < len(ta) || n < len(tb) {
			break
		}
	}
	return shared
}

// Steady returns the text of a segment without what looks volatile in it: in
// system text and tools all that [FindVolatile] finds, in other text nonces and
// counters alone, since a date in a conversation is a part of it.
func Steady(s *Segment) []byte {
	all := s.Kind == ToolSegment || s.Kind == TextSegment && (s.Role == "system" || s.Role == "developer")
	if !all && s.Kind != TextSegment {
		return s.Text
	}
	var out []byte
	at := 0
	for _, v := range FindVolatile(s.Text) {
		if all || v.Kind == NonceText || v.Kind == CounterText {
			out = append(out, s.Text[at:v.Start]...)
			at = v.End
		}
	}
	if at == 0 {
		return s.Text
	}
	return append(out, s.Text[at:]...)
}
