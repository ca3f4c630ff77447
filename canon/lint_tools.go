package canon

import (
	"bytes"
	"fmt"
)

// tools looks at a list of tools.
func (l *linter) tools(name string, i uint32) {
	names := map[string]int{}
	var lastType, lastName []byte
	disorder := false
	for index, t := range l.elements(i) {
		if l.kind(t) != kindObject {
			return
		}
		path := indexed(name, index)
		f, inner := t, path
		if v := l.member(t, "function"); v != 0 && l.kind(v) == kindObject {
			f, inner = v, path+".function"
			l.markersIn(t)
		}
		l.markersIn(f)
		typ, called := l.stringIn(t, "type"), l.stringIn(f, "name")
		if first, twice := names[string(called)]; twice && len(called) > 0 {
			l.add(FindDuplicateTool, inner+".name", l.member(f, "name"), 0,
				fmt.Sprintf("tool %q is also %s", bounded(called), indexed(name, first)),
				"give each tool a name of its own: engines disagree on which of the two counts")
		} else {
			names[string(called)] = index
		}
		if index > 0 && !disorder {
			if c := bytes.Compare(lastType, typ); c > 0 || c == 0 && bytes.Compare(lastName, called) > 0 {
				disorder = true
				l.add(FindToolOrder, path, t, 0, fmt.Sprintf("tool %q comes after %q", bounded(called), bounded(lastName)),
					"sort them by name, lest a map or a registry lists them in another order next time")
			}
		}
		lastType, lastName = typ, called
		if d := l.member(f, "description"); d != 0 && l.kind(d) == kindString {
			l.volatile(inner+".description", d, "the description of a tool")
		}
	}
}

func (l *linter) markersIn(i uint32) {
	for k, end := i+1, l.nodes[i].aux; k < end; k = l.next(k + 1) {
		l.mark(string(l.text(k)))
	}
}

// stringIn returns the string under that name in the object at i, or nil.
func (l *linter) stringIn(i uint32, name string) []byte {
	if v := l.member(i, name); v != 0 && l.kind(v) == kindString {
		return l.text(v)
	}
	return nil
}

// arguments looks at the arguments of a tool call, a string that holds JSON.
func (l *linter) arguments(path string, i uint32) {
	if i == 0 || l.kind(i) != kindString {
		return
	}
	var d reader
	text := l.text(i)
	if d.read(text) && d.kind(0) == kindObject {
		return
	}
	detail, off := "arguments are not a JSON object", 0
	if d.diag.Code != OK {
		detail, off = "arguments are not JSON: "+d.diag.String(), min(d.diag.Offset, len(text))
	}
	l.add(FindArguments, path, i, off, detail,
		"replay what the model wrote, or leave the call out: vLLM answers 400 to some of these")
}

// escapes looks at a tool result that is JSON for strings with \u escapes. An
// escape in a text that is not JSON, such as source code, is that text's own.
func (l *linter) escapes(path string, i uint32) {
	text := l.text(i)
	at := bytes.Index(text, []byte(`\u`))
	if at < 0 {
		return
	}
	start := bytes.TrimLeft(text, " \t\r\n")
	if start[0] != '{' && start[0] != '[' && start[0] != '"' {
		return
	}
	var d reader
	if !d.read(text) {
		return
	}
	first, count := -1, 0
	for k := 0; ; { // JSON has backslashes in strings only
		j := bytes.IndexByte(text[k:], '\\')
		if j < 0 {
			break
		}
		k += j
		r, size := unescape(text[k:])
		if size >= 6 && r >= ' ' { // control characters have no other spelling
			if first < 0 {
				first = k
			}
			count++
		}
		k += size
	}
	if count > 0 {
		l.add(FindEscapedText, path, i, first, fmt.Sprintf("%d \\u escapes inside the text of a tool result", count),
			"marshal tool results without escaping (SetEscapeHTML(false), ensure_ascii=False): the model reads the escapes, and pays for them")
	}
}

// resultOrder looks for results of a batch that are not in call order.
func (l *linter) resultOrder(name string, list []uint32) {
	if l.api != Chat {
		return
	}
	for at, m := range list {
		calls := l.elements(l.member(m, "tool_calls"))
		if len(calls) < 2 || at+len(calls) >= len(list) {
			continue
		}
		place := make(map[string]int, len(calls))
		for k, c := range calls {
			place[string(l.stringIn(c, "id"))] = k
		}
		if len(place) < len(calls) {
			continue
		}
		moved := -1
		for k, r := range list[at+1 : at+1+len(calls)] {
			want, known := place[string(l.stringIn(r, "tool_call_id"))]
			if !known || l.kind(r) != kindObject {
				moved = -1
				break
			}
			delete(place, string(l.stringIn(r, "tool_call_id")))
			if want != k && moved < 0 {
				moved = k
			}
		}
		if moved >= 0 {
			index := at + 1 + moved
			l.add(FindResultOrder, indexed(name, index), list[index], 0,
				fmt.Sprintf("the results of the %d calls of %s are in another order than the calls", len(calls), indexed(name, at)),
				"append results in call order, not as they come in")
		}
	}
}

// reasoningCount counts the assistant turns that call tools, with and without
// their reasoning. Between two calls templates print it, so a turn that lost
// it differs from what the engine has cached.
type reasoningCount struct {
	with, without int
	path          string // of the first without
	node          uint32
}

func (c *reasoningCount) count(path string, m uint32, calls, reasoning bool) {
	switch {
	case !calls:
	case reasoning:
		c.with++
	default:
		if c.without == 0 {
			c.path, c.node = path, m
		}
		c.without++
	}
}

func (c *reasoningCount) report(l *linter) {
	if c.with == 0 || c.without == 0 {
		return
	}
	l.add(FindMissingReasoning, c.path, c.node, 0,
		fmt.Sprintf("%d of %d assistant turns with tool calls have no reasoning", c.without, c.with+c.without),
		"replay assistant turns with the reasoning that came with them")
}
