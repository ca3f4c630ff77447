package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// bytesPerToken is what English text and JSON come to with the tokenizers of
// current models, roughly; figures in tokens are for a sense of scale.
const bytesPerToken = 4

// print writes the report for people.
func (r *Report) print(out io.Writer) error {
	w := bufio.NewWriter(out)
	s := r.Sharing
	fmt.Fprintf(w, "%s in %s, %s bytes of prompt (about %s tokens)\n\n",
		count(r.Requests, "request"), count(len(r.Groups), "group"), comma(s.Prompt), comma(s.Prompt/bytesPerToken))
	fmt.Fprintln(w, "prompt shared with the best earlier request, in a cache that forgets nothing:")
	s.print(w, "  ")
	for i, g := range r.Groups {
		g.print(w, i+1)
	}
	return w.Flush()
}

func (s Sharing) print(w io.Writer, indent string) {
	row := func(name string, shared, of int) {
		fmt.Fprintf(w, "%s%-42s %14s bytes  %5.1f %%\n", indent, name, comma(shared), percent(shared, of))
	}
	row("as sent", s.AsSent, s.Sent)
	row("after canonicalization", s.Canonical, s.Prompt)
	if s.Steady > s.Canonical {
		row("and with volatile text moved to the end", s.Steady, s.Prompt)
	}
}

func (g *Group) print(w io.Writer, number int) {
	fmt.Fprintf(w, "\ngroup %d: model %q, API %s, %s; %s in %s, from line %d on\n", number, g.Model, g.API,
		count(g.Tools, "tool"), count(g.Requests, "request"), count(g.Conversations, "conversation"), g.FirstLine)
	if g.System != "" {
		fmt.Fprintf(w, "  %q\n", g.System)
	}
	g.Sharing.print(w, "  ")
	if len(g.Breaks) == 0 {
		fmt.Fprintln(w, "  nothing breaks the prefix")
	}
	for _, b := range g.Breaks {
		b.print(w)
	}
	for i, f := range g.Findings {
		if i == 0 {
			fmt.Fprintln(w, "\n  in single requests:")
		}
		f.print(w)
	}
}

func (b Break) print(w io.Writer) {
	fmt.Fprintf(w, "\n  %s: %s, %s bytes of prompt lost", b.Change, count(b.Count, "time"), comma(b.Lost))
	if b.Mended {
		fmt.Fprint(w, " as sent; canonicalization removes it")
	}
	if b.Winnable > 0 {
		fmt.Fprintf(w, "; moving it to the end of the prompt would win %s", comma(b.Winnable))
	}
	fmt.Fprintf(w, "\n    first in line %d, against line %d:", b.Line, b.Previous)
	if b.First.Path != "" {
		fmt.Fprintf(w, " at %s byte %d", b.First.Path, b.First.Offset)
	}
	if b.First.Role != "" {
		fmt.Fprintf(w, " (%s)", b.First.Role)
	}
	if b.First.Detail != "" {
		fmt.Fprintf(w, ", %s", b.First.Detail)
	}
	fmt.Fprintln(w)
	if b.First.A != b.First.B {
		fmt.Fprintf(w, "      %q\n      %q\n", b.First.A, b.First.B)
	}
}

func (f Finding) print(w io.Writer) {
	fmt.Fprintf(w, "    %s: %s, first in line %d", f.Code, count(f.Count, "time"), f.Line)
	if f.Path != "" {
		fmt.Fprintf(w, " at %s byte %d", f.Path, f.Offset)
	}
	fmt.Fprintf(w, ": %s\n", f.Detail)
	if f.Excerpt != "" {
		fmt.Fprintf(w, "      %q\n", f.Excerpt)
	}
	advice := f.Advice
	if f.Mended {
		advice += " (canonicalization takes care of it)"
	}
	fmt.Fprintf(w, "      %s\n", advice)
}

// beginning returns up to 70 bytes of a text, on one line.
func beginning(text []byte) string {
	const most = 70
	s := strings.ToValidUTF8(string(text), "\uFFFD")
	if len(s) <= most {
		return s
	}
	n := most
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return comma(n) + " " + noun
}

// comma writes a number with commas between its thousands.
func comma(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
