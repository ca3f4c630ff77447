package canon

import (
	"bytes"
	"fmt"
	"slices"
)

// respelledText tells two texts apart that mean the same: JSON that was
// marshalled anew, escapes inside a text, whitespace at its ends.
func respelledText(a, b []byte) (Change, string, bool) {
	switch {
	case bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b)):
		return Trimmed, "whitespace at the beginning or end", true
	case bytes.Equal(plainText(a), plainText(b)):
		return EscapedChange, "escapes inside the text", true
	}
	if x, y := sortedJSON(a), sortedJSON(b); x != nil && bytes.Equal(x, y) {
		return Remarshalled, "equal as JSON: member order, spaces or escapes differ", true
	}
	return Same, "", false
}

// plainText resolves \u escapes that are part of a text.
func plainText(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u`)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if text[i] == '\\' && i+1 < len(text) && text[i+1] == 'u' && hex4(text, i+2) >= 0 {
			_, size := unescape(text[i:])
			out = appendDecoded(out, text[i:i+size])
			i += size
			continue
		}
		out = append(out, text[i])
		i++
	}
	return out
}

// sortedJSON returns the JSON in a text with the members of all objects and the
// names under required sorted and its strings in canonical spelling, or nil if
// the text is not a JSON object or list. Texts that are equal so differ in
// spelling alone.
func sortedJSON(text []byte) []byte {
	var d reader
	if !d.read(text) || d.kind(0) < kindArray {
		return nil
	}
	return d.appendSorted(make([]byte, 0, len(text)), 0, false)
}

func (d *reader) appendSorted(dst []byte, i uint32, required bool) []byte {
	n := d.nodes[i]
	switch n.kind {
	case kindString:
		dst = append(dst, '"')
		dst = appendCanonical(dst, d.src[n.start:n.end])
		return append(dst, '"')
	case kindArray:
		list := d.elements(i)
		if required {
			slices.SortStableFunc(list, func(x, y uint32) int { return bytes.Compare(d.valueOf(x), d.valueOf(y)) })
		}
		dst = append(dst, '[')
		for k, e := range list {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = d.appendSorted(dst, e, false)
		}
		return append(dst, ']')
	case kindObject:
		type entry struct {
			name []byte
			key  uint32
		}
		var all []entry
		for k := i + 1; k < n.aux; k = d.next(k + 1) {
			all = append(all, entry{d.text(k), k})
		}
		slices.SortStableFunc(all, func(x, y entry) int { return bytes.Compare(x.name, y.name) })
		dst = append(dst, '{')
		for k, e := range all {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = appendQuoted(dst, e.name) // an escaped name's span is not in the source
			dst = append(dst, ':')
			dst = d.appendSorted(dst, e.key+1, string(e.name) == "required")
		}
		return append(dst, '}')
	}
	return append(dst, d.src[n.start:n.end]...)
}

// spelling finds the first difference of two bodies that have one prompt.
func spelling(api API, a, b []byte, p Point) Point {
	var x, y reader
	if !x.read(a) || !y.read(b) {
		return p
	}
	s := speller{a: &x, b: &y, api: api}
	if !s.walk(0, 0, true) {
		s.change, s.detail = Respelled, "whitespace"
		s.byte = commonPrefix(a, b)
		s.other = s.byte
	}
	p.Change, p.Path, p.Detail, p.Offset = s.change, s.path, s.detail, s.byte
	p.A, p.B = excerpt(a, s.byte), excerpt(b, s.other)
	return p
}

// speller walks two bodies side by side to the first difference in spelling.
type speller struct {
	a, b   *reader
	api    API
	change Change
	path   string
	detail string
	byte   int // of the first body
	other  int // of the second
}

func (s *speller) found(i, j uint32, c Change, format string, args ...any) bool {
	s.change, s.path, s.detail = c, s.a.pathTo(i), fmt.Sprintf(format, args...)
	s.byte, s.other = int(s.a.nodes[i].start), int(s.b.nodes[j].start)
	return true
}

// walk reports whether the values differ in more than whitespace.
func (s *speller) walk(i, j uint32, root bool) bool {
	x, y := &s.a.nodes[i], &s.b.nodes[j]
	if x.kind != y.kind {
		if x.kind == kindString && y.kind == kindArray || x.kind == kindArray && y.kind == kindString {
			return s.found(i, j, Respelled, "a string in one, a list of one text part in the other,")
		}
		return s.found(i, j, Respelled, "values of two types")
	}
	switch x.kind {
	case kindArray:
		l, r := s.a.elements(i), s.b.elements(j)
		for k := 0; k < len(l) && k < len(r); k++ {
			if s.walk(l[k], r[k], false) {
				return true
			}
		}
		return len(l) != len(r) && s.found(i, j, Respelled, "lists of two lengths")
	case kindObject:
		return s.object(i, j, root)
	case kindString:
		if bytes.Equal(s.a.src[x.start:x.end], s.b.src[y.start:y.end]) {
			return false
		}
		if bytes.Equal(s.a.text(i), s.b.text(j)) {
			return s.found(i, j, Respelled, "escapes")
		}
	}
	return !bytes.Equal(s.a.valueOf(i), s.b.valueOf(j)) && s.found(i, j, Respelled, "values that the prompt does not show")
}

func (s *speller) object(i, j uint32, root bool) bool {
	other := map[string]uint32{}
	inOrder := make([]string, 0, 8)
	for k := j + 1; k < s.b.nodes[j].aux; k = s.b.next(k + 1) {
		name := string(s.b.text(k))
		other[name] = k + 1
		inOrder = append(inOrder, name)
	}
	outside := func(name string) bool { return root && promptUse(s.api, name) == useOther }
	at, moved := 0, uint32(0)
	for k := i + 1; k < s.a.nodes[i].aux; k = s.a.next(k + 1) {
		name := string(s.a.text(k))
		val, ok := other[name]
		if !ok {
			return s.found(k+1, j, s.kindOf(outside(name)), "the member %s is in the first alone,", bounded([]byte(name)))
		}
		if at < len(inOrder) && inOrder[at] != name && moved == 0 {
			moved = k + 1
		}
		at++
		delete(other, name)
		if outside(name) && !bytes.Equal(s.a.valueOf(k+1), s.b.valueOf(val)) {
			return s.found(k+1, val, OutsidePrompt, "a field outside the prompt")
		}
		if s.walk(k+1, val, false) {
			return true
		}
	}
	for _, name := range inOrder {
		if _, more := other[name]; more {
			return s.found(i, j, s.kindOf(outside(name)), "the member %s is in the second alone,", bounded([]byte(name)))
		}
	}
	return moved != 0 && s.found(moved, j, Respelled, "the order of members")
}

func (s *speller) kindOf(outside bool) Change {
	if outside {
		return OutsidePrompt
	}
	return Respelled
}
