package middleware

import (
	"bytes"
	"strconv"
)

// encoding/json reads a usage in as much time as a request takes to be routed
// and sent, so the usual spelling is read here: whole numbers, nulls, and
// objects of those, under plain names. Anything else is left to encoding/json.

// read takes the counts of the object that b begins with, which is the usage
// itself or the member of it called in. It returns what follows the object, and
// false for one that is not spelled as usual; w is then of no use.
func (w *wireUsage) read(b []byte, in string) (rest []byte, ok bool) {
	if b, ok = after(b, '{'); !ok {
		return nil, false
	}
	if rest, ok = after(b, '}'); ok {
		return rest, true
	}
	for {
		var name string
		if name, b, ok = nameIn(b); !ok {
			return nil, false
		}
		if b, ok = w.member(bytes.TrimLeft(b, blanks), in, name); !ok {
			return nil, false
		}
		if rest, ok = after(b, ','); !ok {
			return after(b, '}')
		}
		b = rest
	}
}

// member takes the value that b begins with.
func (w *wireUsage) member(b []byte, in, name string) (rest []byte, ok bool) {
	count := w.count(in, name)
	details := in == "" && (name == "prompt_tokens_details" || name == "input_tokens_details")
	if rest, ok = bytes.CutPrefix(b, []byte("null")); ok {
		if count != nil {
			*count = nil
		}
		return rest, true
	}
	if len(b) > 0 && b[0] == '{' && in == "" && count == nil {
		return w.read(b, name)
	}
	digits := 0
	for digits < len(b) && '0' <= b[digits] && b[digits] <= '9' {
		digits++
	}
	n, err := strconv.Atoi(string(b[:digits]))
	if err != nil || details || digits > 1 && b[0] == '0' {
		return nil, false
	}
	if count != nil {
		*count = &n
	}
	return b[digits:], true
}

// count returns where the count of that name belongs, nil if it is of no
// interest.
func (w *wireUsage) count(in, name string) **int {
	switch {
	case in == "prompt_tokens_details" && name == "cached_tokens":
		return &w.PromptTokensDetails.CachedTokens
	case in == "input_tokens_details" && name == "cached_tokens":
		return &w.InputTokensDetails.CachedTokens
	case in != "":
		return nil
	}
	switch name {
	case "prompt_tokens":
		return &w.PromptTokens
	case "completion_tokens":
		return &w.CompletionTokens
	case "input_tokens":
		return &w.InputTokens
	case "output_tokens":
		return &w.OutputTokens
	case "cache_read_input_tokens":
		return &w.CacheRead
	case "cache_creation_input_tokens":
		return &w.CacheCreation
	}
	return nil
}

// nameIn returns the name that b begins with, and what follows its colon. A name
// of other characters might be one of ours in another spelling.
func nameIn(b []byte) (name string, rest []byte, ok bool) {
	if b, ok = after(b, '"'); !ok {
		return "", nil, false
	}
	n := 0
	for n < len(b) && (b[n] == '_' || 'a' <= b[n] && b[n] <= 'z' || '0' <= b[n] && b[n] <= '9') {
		n++
	}
	if n == len(b) || b[n] != '"' {
		return "", nil, false
	}
	rest, ok = after(b[n+1:], ':')
	return string(b[:n]), rest, ok
}

const blanks = " \t\r\n"

// after returns what follows c, if b begins with it, blanks aside.
func after(b []byte, c byte) (rest []byte, ok bool) {
	if b = bytes.TrimLeft(b, blanks); len(b) == 0 || b[0] != c {
		return nil, false
	}
	return b[1:], true
}
