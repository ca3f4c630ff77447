//go:build !amd64 || !gc || purego

package canon

import "unicode/utf8"

// marks are made on amd64 only.
type marks struct{}

func (p *parser) unmark() { p.utf8 = utf8.Valid(p.src) }

// scanString scans the string whose text starts at i, appends its node and
// returns the position after the closing quote, or -1 after a fatal fault.
func (p *parser) scanString(i int) int { return p.scanAnyString(i) }

func (p *parser) skim(i int) (at, removed int) { return p.skimWords(i) }
