package canon

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// FindingCode says what [Lint] found.
type FindingCode string

// The codes of findings.
const (
	// FindVolatileText: system text or a tool's description holds a date, a
	// time, an id or a counter that most likely differs in the next request.
	FindVolatileText FindingCode = "volatile-text"
	// FindEscapedText: a tool result is JSON whose strings are spelled with
	// \u escapes, which the model reads as they stand.
	FindEscapedText FindingCode = "escaped-text"
	// FindDuplicateTool: two tools have one name.
	FindDuplicateTool FindingCode = "duplicate-tool"
	// FindToolOrder: tools are not in canonical order, as when a map is
	// listed. Canonicalization mends it.
	FindToolOrder FindingCode = "tool-order"
	// FindArguments: the arguments of a tool call are not a JSON object.
	FindArguments FindingCode = "arguments-not-json"
	// FindResultOrder: the results of one batch of tool calls are not in call
	// order. Canonicalization mends it.
	FindResultOrder FindingCode = "result-order"
	// FindCacheMarkers: the body holds cache markers, which vLLM ignores.
	// Canonicalization drops them.
	FindCacheMarkers FindingCode = "cache-markers"
	// FindMissingReasoning: some assistant turns with tool calls have their
	// reasoning and others have not.
	FindMissingReasoning FindingCode = "missing-reasoning"
	// FindUntouched: canon passes the body on as it is; see Finding.Detail.
	FindUntouched FindingCode = "untouched"
)

// Finding is something in a request that costs shared prefix, or may.
type Finding struct {
	Code    FindingCode `json:"code"`
	Path    string      `json:"path"`    // where in the body as given, such as messages[0].content
	Offset  int         `json:"offset"`  // byte of the text at Path
	Byte    int         `json:"byte"`    // byte of the body
	Excerpt string      `json:"excerpt"` // the text there, at most 80 bytes of it
	Detail  string      `json:"detail"`  // what was found, in words
	Advice  string      `json:"advice"`  // what to do
	Mended  bool        `json:"mended"`  // canonicalization at Stable takes care of it
}

// String returns the finding on one line.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Code, f.Detail)
	if f.Path != "" {
		fmt.Fprintf(&b, " at %s byte %d", f.Path, f.Offset)
	} else {
		fmt.Fprintf(&b, " at byte %d of the body", f.Byte)
	}
	if f.Excerpt != "" {
		fmt.Fprintf(&b, ": %q", f.Excerpt)
	}
	fmt.Fprintf(&b, "; %s", f.Advice)
	return b.String()
}

// maxFindings bounds a report. Whoever reads a hundred findings does not need
// the next one.
const maxFindings = 100

// Lint looks for what commonly breaks the shared prefix of a conversation, in
// one request alone: no other request is needed, so it finds what is likely
// and not what has happened, which is [Diff]'s. It returns at most 100
// findings, in no more than linear time.
//
// Volatile text is looked for in the first 8 KiB of system and developer text
// and in the descriptions of tools, and must look like the present: a date in
// an example is not reported.
func Lint(api API, body []byte) []Finding {
	l := linter{api: api}
	if api == Unknown || int(api) >= len(rootRule) {
		return nil
	}
	if !l.read(body) {
		l.findings = append(l.findings, Finding{
			Code: FindUntouched, Path: l.diag.Path, Byte: l.diag.Offset, Detail: l.diag.String(),
			Advice: "mend the body: it is sent as it is and shares a place only with equal bytes",
		})
		return l.findings
	}
	if r, err := Canonicalize(api, body); err == nil && r.Diagnosis.Code != OK {
		l.findings = append(l.findings, Finding{
			Code: FindUntouched, Path: r.Diagnosis.Path, Byte: r.Diagnosis.Offset, Detail: r.Diagnosis.String(),
			Advice: "mend the body: it is sent as it is and shares a place only with equal bytes",
		})
		return l.findings
	}
	l.root()
	return l.findings
}

// linter collects findings of a body as it was given.
type linter struct {
	reader
	api       API
	findings  []Finding
	markers   int
	reasoning reasoningCount
}

// add appends a finding about byte off of the text at node i.
func (l *linter) add(code FindingCode, path string, i uint32, off int, detail, advice string) {
	if len(l.findings) >= maxFindings {
		return
	}
	f := Finding{Code: code, Path: path, Offset: off, Byte: int(l.nodes[i].start) + off, Detail: detail, Advice: advice}
	switch code {
	case FindToolOrder, FindResultOrder, FindCacheMarkers:
		f.Mended = true
	}
	if l.kind(i) == kindString {
		f.Byte = int(l.nodes[i].start) + spelledAt(l.src[l.nodes[i].start:l.nodes[i].end], off)
		f.Excerpt = excerpt(l.text(i), off)
	}
	l.findings = append(l.findings, f)
}

// spelledAt returns how many bytes of the spelling of a string the first n
// bytes of its text take.
func spelledAt(raw []byte, n int) int {
	i, text := 0, 0
	for i < len(raw) && text < n {
		if raw[i] != '\\' {
			i++
			text++
			continue
		}
		r, size := unescape(raw[i:])
		i += size
		text += utf8.RuneLen(r)
	}
	return i
}

func (l *linter) root() {
	for k, end := uint32(1), l.nodes[0].aux; k < end; k = l.next(k + 1) {
		name, val := string(l.text(k)), k+1
		switch promptUse(l.api, name) {
		case useTools:
			l.tools(name, val)
		case useSystem:
			l.content("system", name, val)
		case usePrompt:
			if name == "messages" || l.api == Responses {
				l.messages(name, val)
			}
		default:
			l.mark(name)
		}
	}
	l.reasoning.report(l)
	if l.markers > 0 {
		l.add(FindCacheMarkers, "", 0, 0, fmt.Sprintf("%d cache markers", l.markers),
			"leave them out: vLLM ignores them, and other engines print them")
	}
}

// mark counts cache markers.
func (l *linter) mark(name string) {
	if name == "cache_control" || name == "prompt_cache_breakpoint" {
		l.markers++
	}
}

// messages looks at the messages of a chat or the items of a Responses request.
func (l *linter) messages(name string, i uint32) {
	list := l.elements(i)
	leading := true
	for index, m := range list {
		path := indexed(name, index)
		if l.kind(m) != kindObject {
			leading = false
			continue
		}
		role := "system"
		switch r := l.member(m, "role"); {
		case l.spellsAny(r, "system", "developer"):
		default:
			leading = false
			role = l.roleOf(m, r)
		}
		if role == "system" && !leading {
			role = "late system"
		}
		l.message(role, path, m)
	}
	l.resultOrder(name, list)
}

func (l *linter) spellsAny(i uint32, words ...string) bool {
	if i == 0 || l.kind(i) != kindString {
		return false
	}
	for _, w := range words {
		if l.spells(i, w) {
			return true
		}
	}
	return false
}

func (l *linter) roleOf(m, role uint32) string {
	if role != 0 && l.kind(role) == kindString {
		return string(l.text(role))
	}
	if t := l.member(m, "type"); t != 0 && l.kind(t) == kindString {
		return roleOfItem(string(l.text(t)))
	}
	return ""
}

func (l *linter) message(role, path string, m uint32) {
	calls, reasoning := false, false
	for k, end := m+1, l.nodes[m].aux; k < end; k = l.next(k + 1) {
		name, val := string(l.text(k)), k+1
		switch name {
		case "content", "output":
			l.content(role, path+"."+name, val)
		case "tool_calls":
			calls = calls || l.kind(val) == kindArray && l.nodes[val].aux > val+1
			for index, c := range l.elements(val) {
				at := indexed(path+".tool_calls", index) + ".function.arguments"
				if f := l.member(c, "function"); f != 0 {
					l.arguments(at, l.member(f, "arguments"))
				}
			}
		case "arguments":
			l.arguments(path+".arguments", val)
		case "reasoning", "reasoning_content":
			reasoning = reasoning || l.kind(val) == kindString && l.nodes[val].aux > 0
		default:
			l.mark(name)
		}
	}
	if role == "assistant" && l.api == Chat {
		l.reasoning.count(path, m, calls, reasoning)
	}
}
