package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/prefixwise/prefixwise/examples/replay/report"
)

// hitParts is how many parts of the time the plot of hit rates has at most, and
// partRequests how many requests are to be in one.
const hitParts, partRequests = 40, 10

// writeReport writes the page that -html asks for.
func (c *comparison) writeReport(verdict string) error {
	s := c.settings
	p := report.Page{
		Title:   "Replay of " + c.trace.name,
		About:   c.describe(c.trace),
		Verdict: strings.Split(verdict, "\n"),
		Command: s.command,
		Options: s.options,
		Columns: []string{"policy", "clients"},
	}
	for _, column := range columns {
		p.Columns = append(p.Columns, column.title)
	}
	for _, r := range c.rows {
		p.Span = max(p.Span, r.curves.spans)
	}
	parts := min(hitParts, max(4, len(c.trace.requests)/partRequests))
	for _, r := range c.rows {
		name := r.policy.name
		if len(s.clients) > 1 {
			name += fmt.Sprintf(", clients: %d", r.clients)
		}
		p.Arms = append(p.Arms, report.Arm{Name: name, TTFT: r.curves.distribution(), Hits: r.curves.hits(parts, p.Span), Shares: r.curves.shares,
			Colour: policyNumber(s.policies, r.policy), Dash: slices.Index(s.clients, r.clients)})
		p.Rows = append(p.Rows, report.Row{Name: r.policy.name, Cells: cells(r.results), Notes: notes(r.results)})
		if len(r.predicted) > 0 {
			p.Rows = append(p.Rows, report.Row{Name: "predicted", Cells: cells(r.predicted), Secondary: true})
		}
	}
	if len(c.rows) > 0 { // the same in every arm
		for _, change := range c.rows[0].curves.changes {
			p.Changes = append(p.Changes, report.Change{At: change.at, What: change.what})
		}
	}
	var b bytes.Buffer
	if err := report.Write(&b, p); err != nil {
		return fmt.Errorf("-html: %w", err)
	}
	if err := os.WriteFile(s.html, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("-html: %w", err)
	}
	return nil
}

// policyNumber gives a policy's arms their colour.
func policyNumber(all []policy, p policy) int {
	return slices.IndexFunc(all, func(other policy) bool { return other.name == p.name })
}
