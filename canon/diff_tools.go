package canon

import (
	"bytes"
	"fmt"
	"strings"
)

// tools classifies a difference in the lists of tools.
func (c *comparison) tools() (Change, string) {
	a, b := toolsOf(&c.a), toolsOf(&c.b)
	added, removed := missing(b, a), missing(a, b)
	if len(added)+len(removed) > 0 {
		var words []string
		if len(added) > 0 {
			words = append(words, "added "+listed(added))
		}
		if len(removed) > 0 {
			words = append(words, "removed "+listed(removed))
		}
		return ToolSet, strings.Join(words, ", ")
	}
	sa, sb := c.sides()
	if sa.Kind != ToolSegment || sb.Kind != ToolSegment || len(a) != len(b) {
		return ToolSet, "a tool is there twice"
	}
	name := toolName(sa.Text)
	if other := toolName(sb.Text); other != name {
		return ToolOrder, fmt.Sprintf("%q stands where %q stood", bounded([]byte(other)), bounded([]byte(name)))
	}
	tool := fmt.Sprintf("tool %q", bounded([]byte(name)))
	if ordered, same := stableTool(c.a.API, sa.Text), stableTool(c.a.API, sb.Text); ordered != nil && bytes.Equal(ordered, same) {
		return KeywordOrder, tool
	}
	if bytes.Equal(sortedJSON(sa.Text), sortedJSON(sb.Text)) {
		return PropertyOrder, tool
	}
	path, off, text := leafAt(sb.Text, c.off)
	_, offA, textA := leafAt(sa.Text, c.off)
	if strings.HasSuffix(path, "description") || strings.Contains(path, ".enum") {
		first := Segment{Kind: ToolSegment, Text: textA}
		second := Segment{Kind: ToolSegment, Text: text}
		va, inA := coverAt(FindVolatile(textA), offA)
		vb, inB := coverAt(FindVolatile(text), off)
		if inA && inB && va.Kind == vb.Kind || (inA || inB) && bytes.Equal(Steady(&first), Steady(&second)) {
			kind := va.Kind
			if !inA {
				kind = vb.Kind
			}
			return VolatileChange, fmt.Sprintf("%s in %s", kind, tool)
		}
	}
	if strings.Contains(path, ".parameters") || strings.Contains(path, ".input_schema") {
		return ToolSchema, tool
	}
	return ToolText, tool
}

func toolsOf(v *view) []string {
	var names []string
	for i := range v.Segments {
		if s := &v.Segments[i]; s.Kind == ToolSegment && s.Name == "" {
			names = append(names, toolName(s.Text))
		}
	}
	return names
}

// toolName reads the name of a tool.
func toolName(tool []byte) string {
	var d reader
	if !d.read(tool) {
		return ""
	}
	f := d.member(0, "function") // or 0, the root, where the other shapes have the name
	if n := d.member(f, "name"); n != 0 && d.kind(n) == kindString {
		return string(d.text(n))
	}
	return ""
}

// missing returns the names that are in a and not in b, in order.
func missing(a, b []string) []string {
	have := make(map[string]bool, len(b))
	for _, n := range b {
		have[n] = true
	}
	var out []string
	for _, n := range a {
		if !have[n] {
			out = append(out, n)
			have[n] = true
		}
	}
	return out
}

// listed spells up to five names.
func listed(names []string) string {
	var b strings.Builder
	for i, n := range names {
		if i == 5 {
			fmt.Fprintf(&b, " and %d more", len(names)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", bounded([]byte(n)))
	}
	return b.String()
}

// stableTool returns a tool as Stable writes it, or nil.
func stableTool(api API, tool []byte) []byte {
	var body []byte
	body = append(body, `{"tools":[`...)
	body = append(body, tool...)
	body = append(body, `]}`...)
	r, err := Canonicalize(api, body)
	if err != nil || r.Diagnosis.Code != OK {
		return nil
	}
	return r.Body
}
