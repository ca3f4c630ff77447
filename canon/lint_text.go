package canon

import (
	"fmt"
)

// content looks at a text or at the texts of parts.
func (l *linter) content(role, path string, i uint32) {
	switch l.kind(i) {
	case kindString:
		l.textAt(role, path, i)
	case kindArray:
		for index, p := range l.elements(i) {
			at := indexed(path, index)
			if l.kind(p) == kindString {
				l.textAt(role, at, p)
			}
			if l.kind(p) != kindObject {
				continue
			}
			inner := role
			if l.spellsAny(l.member(p, "type"), "tool_result") {
				inner = "tool"
			}
			for k, end := p+1, l.nodes[p].aux; k < end; k = l.next(k + 1) {
				switch name := string(l.text(k)); name {
				case "text", "content":
					l.content(inner, at+"."+name, k+1)
				default:
					l.mark(name)
				}
			}
		}
	}
}

func (l *linter) textAt(role, path string, i uint32) {
	switch role {
	case "system":
		l.volatile(path, i, "system text")
	case "tool":
		l.escapes(path, i)
	}
}

// volatile reports what changes in the text at i. Of one kind the first is
// enough: whoever moves it sees the others.
func (l *linter) volatile(path string, i uint32, what string) {
	text := l.text(i)
	text = text[:min(len(text), volatileDepth)]
	var seen [len(volatileNames)]bool
	for _, v := range FindVolatile(text) {
		if seen[v.Kind] || !v.changes(text) {
			continue
		}
		seen[v.Kind] = true
		l.add(FindVolatileText, path, i, v.Start, fmt.Sprintf("%s in %s (%q)", v.Kind, what, bounded(text[v.Start:v.End])),
			"if it differs from request to request, nothing after it is shared: put it into the last message")
	}
}
