package canon

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// ErrMerge is what a [*MergeError] is, under [errors.Is].
var ErrMerge = errors.New("canon: cannot merge")

// MergeError reports why [Merge] could not set a member.
type MergeError struct {
	Name      string    // the member to be set; "" when the body itself is at fault
	Diagnosis Diagnosis // what is wrong with the value, or with the body
}

func (e *MergeError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("canon: cannot merge into the body: %s", e.Diagnosis)
	}
	return fmt.Sprintf("canon: cannot merge member %q: %s", e.Name, e.Diagnosis)
}

// Is reports whether target is [ErrMerge].
func (e *MergeError) Is(target error) bool { return target == ErrMerge }

// mergeDepth is how deep a body or a value may nest for Merge, which copies
// them: the limit of encoding/json, which made most of them.
const mergeDepth = 10_000

// Merge returns body, a JSON object, with members of its root set. A member
// that is there gets the new value in its place; a new one is added at the end,
// in the order of the names. All other bytes stay as they are. body is not
// modified; without extra members it is returned as it is, unread.
//
// The error is a [*MergeError]: body is not a JSON object, or a value is not
// JSON. Above 2 GiB it is a [*SizeError].
func Merge(body []byte, extra map[string]json.RawMessage) ([]byte, error) {
	if len(extra) == 0 {
		return body, nil
	}
	names := make([]string, 0, len(extra))
	size := len(body)
	var p parser
	for name, value := range extra {
		if len(value) > math.MaxInt32 {
			return nil, &SizeError{Size: len(value), Max: math.MaxInt32}
		}
		p.reset(value, mergeDepth)
		if !p.parse() {
			return nil, &MergeError{Name: name, Diagnosis: p.diag}
		}
		if !utf8.ValidString(name) {
			return nil, &MergeError{Name: name, Diagnosis: Diagnosis{Code: InvalidUTF8, Detail: "the name is not UTF-8"}}
		}
		names = append(names, name)
		size += len(name) + len(value) + len(`,"":`)
	}
	slices.Sort(names)

	if len(body) > math.MaxInt32 {
		return nil, &SizeError{Size: len(body), Max: math.MaxInt32}
	}
	p.reset(body, mergeDepth)
	ok := p.parse()
	if ok && p.kind(0) != kindObject {
		p.fail(NotObject, 0, "the body is not an object")
		ok = false
	}
	if !ok {
		return nil, &MergeError{Diagnosis: p.diag}
	}
	out := make([]byte, 0, size)
	set := make(map[string]bool, len(extra))
	copied := 0
	for k, end := uint32(1), p.nodes[0].aux; k < end; k = p.next(k + 1) {
		name := string(p.nameAt(k))
		value, ok := extra[name]
		if !ok {
			continue
		}
		set[name] = true
		from, to := p.span(k + 1)
		out = append(out, body[copied:from]...)
		out = append(out, value...)
		copied = to
	}
	closing := int(p.nodes[0].end) - 1
	out = append(out, body[copied:closing]...)
	first := p.nodes[0].aux == 1
	for _, name := range names {
		if set[name] {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = appendQuoted(out, []byte(name))
		out = append(out, ':')
		out = append(out, extra[name]...)
	}
	return append(out, body[closing:]...), nil
}

// span returns where the value at i lies in the source, quotes included.
func (d *doc) span(i uint32) (from, to int) {
	n := &d.nodes[i]
	if n.kind == kindString {
		return int(n.start) - 1, int(n.end) + 1
	}
	return int(n.start), int(n.end)
}
