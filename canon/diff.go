package canon

import (
	"bytes"
	"fmt"
	"strings"
)

// Point is the first place at which two prompts differ.
type Point struct {
	Change  Change `json:"change"`
	Path    string `json:"path"`    // in the second body in canonical form, or in the first for what the second lacks; "" without a difference
	Message int    `json:"message"` // index of the message, -1 before the first
	Role    string `json:"role"`    // of that message, "system" for system text outside the messages
	Offset  int    `json:"offset"`  // byte of the text at Path
	Shared  int    `json:"shared"`  // bytes of prompt before the difference, counted as in Boundary.Offset
	Lost    int    `json:"lost"`    // bytes of the shorter prompt after it: what the two could have shared beyond
	A       string `json:"a"`       // the first text there, at most 80 bytes of it
	B       string `json:"b"`       // the second
	Detail  string `json:"detail"`  // more, in words
}

// Divergence says where and why two requests stop sharing a prompt.
//
// The embedded Point is about the prompts after canonicalization, at Level.
// Sent is about the prompts of the two bodies as they were given, which engines
// see when nothing canonicalizes: where Sent.Lost is larger, canonicalization
// wins the difference. Its Change can be Respelled or OutsidePrompt, for bodies
// that differ without a difference of their prompts; Path and Offset are then
// about the body.
type Divergence struct {
	Point
	Sent      Point `json:"sent"`
	Level     Level `json:"-"`
	SameBytes bool  `json:"same_bytes"` // the bodies are equal byte for byte
	SizeA     int   `json:"size_a"`     // bytes of the first prompt after canonicalization
	SizeB     int   `json:"size_b"`     // bytes of the second
	// Winnable is how many more bytes of prompt would be shared if the volatile
	// text in system text and tools stood at the end of the prompt. It is 0
	// where something else is the matter.
	Winnable int `json:"winnable"`
}

// Diff compares the prompts of two requests at the level Stable.
func Diff(api API, a, b []byte) Divergence {
	c, err := New(Options{DisableToolsCache: true})
	if err != nil { // the options are fixed
		return Divergence{}
	}
	return c.Diff(api, a, b)
}

// Diff compares the prompts of two requests, a being the earlier one. It takes
// time in proportion to their sizes, several times what canonicalizing them
// takes, and is meant for diagnosis. It never panics and keeps neither body.
// Bodies that are over the size limit, or that canonicalization leaves
// untouched, are compared byte by byte.
func (c *Canonicalizer) Diff(api API, a, b []byte) Divergence {
	d := Divergence{Level: c.options.Level, SameBytes: bytes.Equal(a, b)}
	o := c.options
	o.Level, o.DisableToolsCache = Wire, true
	wire, err := New(o)
	if err != nil { // c has the same options but for the level
		wire = c
	}

	canonical := newComparison(c.outlineOf(api, a), c.outlineOf(api, b))
	d.Point = canonical.point()
	d.SizeA, d.SizeB = canonical.a.Size, canonical.b.Size
	if d.Change == VolatileChange {
		d.Winnable = max(0, canonical.sharedWithoutVolatile()-d.Shared)
	}
	sent := newComparison(wire.outlineOf(api, a), wire.outlineOf(api, b))
	d.Sent = sent.point()
	if d.Sent.Change == Same && !d.SameBytes {
		d.Sent = spelling(api, a, b, d.Sent)
	}
	return d
}

// outlineOf is Outline for a body of any size.
func (c *Canonicalizer) outlineOf(api API, body []byte) Outline {
	o, err := c.Outline(api, body)
	if err != nil {
		return rawOutline(api, body, Diagnosis{Code: WrongShape, Detail: err.Error()})
	}
	return o
}

// String describes the divergence in a few lines for people.
func (d Divergence) String() string {
	var b strings.Builder
	d.Point.describe(&b, "\n  ")
	if d.Winnable > 0 {
		fmt.Fprintf(&b, "\n  if it stood at the end of the prompt, %d more would be shared", d.Winnable)
	}
	switch {
	case d.SameBytes && d.Change == Same:
		b.WriteString("\n  the bodies are equal byte for byte")
	case d.Sent.Change == Respelled || d.Sent.Change == OutsidePrompt:
		fmt.Fprintf(&b, "\n  the bodies differ, their prompts do not: %s", d.Sent.Detail)
		if d.Sent.Path != "" {
			fmt.Fprintf(&b, " at %s", d.Sent.Path)
		}
	case d.Sent.Lost > d.Lost && d.Sent.Change != d.Change:
		b.WriteString("\n  as sent, without canonicalization: ")
		d.Sent.describe(&b, "\n    ")
		fmt.Fprintf(&b, "\n    canonicalization at %s removes that difference", d.Level)
	}
	return b.String()
}

// describe writes the point; newline begins each line but the first.
func (p Point) describe(b *strings.Builder, newline string) {
	b.WriteString(p.Change.String())
	if p.Path != "" {
		fmt.Fprintf(b, " at %s byte %d", p.Path, p.Offset)
		if p.Role != "" {
			fmt.Fprintf(b, " (%s)", p.Role)
		}
	}
	if p.Detail != "" {
		fmt.Fprintf(b, ": %s", p.Detail)
	}
	if p.A != p.B {
		fmt.Fprintf(b, "%sfirst:  %q%ssecond: %q", newline, p.A, newline, p.B)
	}
	fmt.Fprintf(b, "%s%d bytes of prompt are shared", newline, p.Shared)
	if p.Lost > 0 {
		fmt.Fprintf(b, ", %d after them are lost", p.Lost)
	}
}
