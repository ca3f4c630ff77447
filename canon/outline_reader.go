package canon

// reader reads a document that has been parsed and not written. What Diff,
// Lint and Outline ask of the parser is all in this file.
type reader struct {
	parser
}

// read parses a document and reports whether it is one JSON value without
// faults.
func (d *reader) read(src []byte) bool {
	d.reset(src, maxDepth)
	return d.parse() && d.diag.Code == OK
}

// text returns the text of the string at i.
func (d *reader) text(i uint32) []byte { return d.decoded(i) }

// valueOf returns the text of a string, or the JSON of anything else.
func (d *reader) valueOf(i uint32) []byte {
	n := &d.nodes[i]
	if n.kind == kindString {
		return d.text(i)
	}
	return d.src[n.start:n.end]
}

// jsonOf returns the JSON of the value at i, strings with their quotes.
func (d *reader) jsonOf(i uint32) []byte {
	n := &d.nodes[i]
	if n.kind == kindString {
		return d.src[n.start-1 : n.end+1]
	}
	return d.src[n.start:n.end]
}

// spells reports whether the value at i is the string s.
func (d *reader) spells(i uint32, s string) bool {
	n := &d.nodes[i]
	return n.kind == kindString && int(n.aux) == len(s) && string(d.text(i)) == s
}

// member returns the value of the member of the object at i with that name, or
// 0, which is never a member's value.
func (d *reader) member(i uint32, name string) uint32 {
	if d.kind(i) != kindObject {
		return 0
	}
	for k, end := i+1, d.nodes[i].aux; k < end; k = d.next(k + 1) {
		if d.spells(k, name) {
			return k + 1
		}
	}
	return 0
}

// elements returns the nodes of the elements of the array at i, none for
// anything else.
func (d *reader) elements(i uint32) []uint32 {
	if d.kind(i) != kindArray {
		return nil
	}
	var all []uint32
	for k, end := i+1, d.nodes[i].aux; k < end; k = d.next(k) {
		all = append(all, k)
	}
	return all
}
