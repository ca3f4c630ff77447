package canon

import (
	"errors"
	"fmt"
)

// Code says why a body passed through untouched.
type Code uint8

// The reasons for which a body passes through untouched. OK means that it did
// not: the body is canonical.
const (
	OK            Code = iota
	UnknownAPI         // the request shape is not one that canon knows
	NotJSON            // the body does not follow the grammar of RFC 8259
	NotObject          // the body is JSON, but not an object
	TrailingData       // something follows the object
	DuplicateName      // an object has two members of one name, so decoders disagree
	LoneSurrogate      // a \u escape is half of a surrogate pair
	InvalidUTF8        // a string is not UTF-8
	TooDeep            // objects and arrays nest deeper than 128
	WrongShape         // a field that holds the prompt has the wrong type
)

var codeNames = [...]string{
	"ok", "unknown-api", "not-json", "not-object", "trailing-data",
	"duplicate-name", "lone-surrogate", "invalid-utf8", "too-deep", "wrong-shape",
}

// String returns the code in kebab case, such as "duplicate-name".
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("Code(%d)", uint8(c))
}

// Diagnosis says why a body passed through untouched. The zero value says that
// it was canonicalized. Nothing in it quotes text of the prompt, only member
// names on the path.
type Diagnosis struct {
	Code   Code
	Offset int    // byte of the body at which it was noticed
	Path   string // where in the document, such as messages[2].content; "" at the root
	Detail string // what was wrong, in words
}

// String returns the diagnosis on one line, and "ok" for the zero value.
func (d Diagnosis) String() string {
	if d.Code == OK {
		return "ok"
	}
	s := d.Code.String()
	if d.Detail != "" {
		s += ": " + d.Detail
	}
	if d.Path != "" {
		s += " at " + d.Path
	}
	return fmt.Sprintf("%s (byte %d)", s, d.Offset)
}

// ErrTooLarge is what a [*SizeError] is, under [errors.Is].
var ErrTooLarge = errors.New("canon: body too large")

// SizeError reports a body above the limit of [Options.MaxBytes]. It is
// returned before anything is sent.
type SizeError struct {
	Size int // bytes of the body
	Max  int // the limit, in bytes
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("canon: body of %d bytes is over the limit of %d", e.Size, e.Max)
}

// Is reports whether target is [ErrTooLarge].
func (e *SizeError) Is(target error) bool { return target == ErrTooLarge }
