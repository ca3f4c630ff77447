package middleware

import (
	"bytes"
	"encoding/json"
	"math"
	"unicode/utf8"
)

// quick reads JSON without encoding/json, which needs as much time for a usage as
// a request takes to be routed and sent, and more for the events of a stream than
// all else here. It reads what nearly all of these are: values as usually
// spelled, under plain names. It is what is left of a text; each method returns
// what follows the value that it begins with, and false for a fault and for what
// is not usual: encoding/json is to be asked then.
type quick []byte

// object reads an object: member gets each name and what follows its colon.
func (q quick) object(member func(name []byte, value quick) (rest quick, ok bool)) (rest quick, ok bool) {
	if q, ok = q.after('{'); !ok {
		return nil, false
	}
	if rest, ok = q.after('}'); ok {
		return rest, true
	}
	for {
		name, value, ok := q.name()
		if !ok {
			return nil, false
		}
		if q, ok = member(name, value.unblank()); !ok {
			return nil, false
		}
		if rest, ok = q.after(','); !ok {
			return q.after('}')
		}
		q = rest
	}
}

// list reads an array, of which element gets each element.
func (q quick) list(element func(value quick) (rest quick, ok bool)) (rest quick, ok bool) {
	if q, ok = q.after('['); !ok {
		return nil, false
	}
	if rest, ok = q.after(']'); ok {
		return rest, true
	}
	for {
		if q, ok = element(q.unblank()); !ok {
			return nil, false
		}
		if rest, ok = q.after(','); !ok {
			return q.after(']')
		}
		q = rest
	}
}

// name reads the name of a member and its colon. A name of other characters might
// be one of ours in another spelling.
func (q quick) name() (name []byte, rest quick, ok bool) {
	if q, ok = q.after('"'); !ok {
		return nil, nil, false
	}
	n := 0
	for n < len(q) && (q[n] == '_' || 'a' <= q[n] && q[n] <= 'z' || '0' <= q[n] && q[n] <= '9') {
		n++
	}
	if n == len(q) || q[n] != '"' {
		return nil, nil, false
	}
	rest, ok = q[n+1:].after(':')
	return q[:n], rest, ok
}

// nesting is how deep the values that are read may lie in one another.
const nesting = 16

// value reads any value but numbers that are not whole.
func (q quick) value(depth int) (rest quick, ok bool) {
	if len(q) == 0 || depth == 0 {
		return nil, false
	}
	switch q[0] {
	case '"':
		return q.text()
	case '{':
		return q.object(func(_ []byte, inner quick) (quick, bool) { return inner.value(depth - 1) })
	case '[':
		return q.list(func(inner quick) (quick, bool) { return inner.value(depth - 1) })
	case 'n':
		return q.literal("null")
	case 't':
		return q.literal("true")
	case 'f':
		return q.literal("false")
	}
	_, rest, ok = q.whole()
	return rest, ok
}

// raw reads any value into to, which must be empty.
func (q quick) raw(to *json.RawMessage) (rest quick, ok bool) {
	if rest, ok = q.value(nesting); !ok || *to != nil {
		return nil, false
	}
	*to = json.RawMessage(q[:len(q)-len(rest)])
	return rest, true
}

func (q quick) literal(word string) (rest quick, ok bool) {
	if len(q) < len(word) || string(q[:len(word)]) != word {
		return nil, false
	}
	return q[len(word):], true
}

// text reads a string. Escapes by number are not usual.
func (q quick) text() (rest quick, ok bool) {
	for i := 1; i < len(q); i++ {
		switch c := q[i]; {
		case c == '"':
			return q[i+1:], true
		case c < ' ':
			return nil, false
		case c == '\\':
			if i++; i == len(q) || bytes.IndexByte([]byte(`"\/bfnrt`), q[i]) < 0 {
				return nil, false
			}
		}
	}
	return nil, false
}

// word reads a string without escapes and returns its text.
func (q quick) word() (text []byte, rest quick, ok bool) {
	if len(q) == 0 || q[0] != '"' {
		return nil, nil, false
	}
	if rest, ok = q.text(); !ok {
		return nil, nil, false
	}
	text = q[1 : len(q)-len(rest)-1]
	return text, rest, bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text)
}

// whole reads a whole number that is not negative and fits.
func (q quick) whole() (n int, rest quick, ok bool) {
	const most = (math.MaxInt - 9) / 10
	i := 0
	for ; i < len(q) && '0' <= q[i] && q[i] <= '9' && n <= most; i++ {
		n = 10*n + int(q[i]-'0')
	}
	if i == 0 || i > 1 && q[0] == '0' || i < len(q) && bytes.IndexByte([]byte("0123456789.eE"), q[i]) >= 0 {
		return 0, nil, false
	}
	return n, q[i:], true
}

// after reads c, which blanks may precede.
func (q quick) after(c byte) (rest quick, ok bool) {
	if q = q.unblank(); len(q) == 0 || q[0] != c {
		return nil, false
	}
	return q[1:], true
}

func (q quick) unblank() quick {
	for len(q) > 0 && (q[0] == ' ' || q[0] == '\n' || q[0] == '\r' || q[0] == '\t') {
		q = q[1:]
	}
	return q
}

// met are the names of an object that were met, by bit.
type met uint8

// first notes a name and tells whether it had not been met.
func (m *met) first(bit met) bool {
	was := *m
	*m |= bit
	return was&bit == 0
}
