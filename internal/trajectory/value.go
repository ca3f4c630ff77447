package trajectory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"unicode/utf8"
)

// value is a JSON value with the order of its members.
type value struct {
	lit  string // null, true, false or a number; "" for the others
	text string // of a string
	kind byte   // 's', 'a', 'o', or 0 for a literal
	kids []member
}

// member is a member of an object or, without a name, an element of a list.
type member struct {
	name string
	val  *value
}

func parse(raw []byte) (*value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return decode(d)
}

func decode(d *json.Decoder) (*value, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		v := &value{kind: 'a'}
		if t == '{' {
			v.kind = 'o'
		}
		for d.More() {
			var m member
			if v.kind == 'o' {
				name, err := d.Token()
				if err != nil {
					return nil, err
				}
				m.name = name.(string)
			}
			if m.val, err = decode(d); err != nil {
				return nil, err
			}
			v.kids = append(v.kids, m)
		}
		_, err := d.Token()
		return v, err
	case string:
		return str(t), nil
	case json.Number:
		return &value{lit: t.String()}, nil
	case bool:
		return &value{lit: strconv.FormatBool(t)}, nil
	case nil:
		return &value{lit: "null"}, nil
	}
	return nil, fmt.Errorf("trajectory: unexpected token %v", token)
}

func str(s string) *value { return &value{kind: 's', text: s} }

func list(all ...*value) *value {
	v := &value{kind: 'a'}
	for _, e := range all {
		v.kids = append(v.kids, member{val: e})
	}
	return v
}

func object(kids ...member) *value { return &value{kind: 'o', kids: kids} }

func (v *value) get(name string) *value {
	for _, k := range v.kids {
		if k.name == name {
			return k.val
		}
	}
	return &value{lit: "null"}
}

// spelling says how JSON is written. The zero value is compact, with nothing
// escaped that need not be.
type spelling struct {
	random *rand.Rand // nil: no variation
	spaced bool       // as Python's json.dumps
}

func (s spelling) append(b []byte, v *value) []byte {
	comma, colon := ",", ":"
	if s.spaced {
		comma, colon = ", ", ": "
	}
	switch v.kind {
	case 's':
		return s.appendText(b, v.text)
	case 0:
		return append(b, v.lit...)
	}
	brackets := "[]"
	if v.kind == 'o' {
		brackets = "{}"
	}
	b = append(b, brackets[0])
	for i, k := range v.kids {
		if i > 0 {
			b = append(b, comma...)
		}
		if v.kind == 'o' {
			b = s.appendText(b, k.name)
			b = append(b, colon...)
		}
		b = s.append(b, k.val)
	}
	return append(b, brackets[1])
}

// appendText writes a string; with variation, one string in three has some
// characters escaped for no reason.
func (s spelling) appendText(b []byte, text string) []byte {
	odd := s.random != nil && s.random.IntN(3) == 0
	b = append(b, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n' && !odd:
			b = append(b, `\n`...)
		case r < ' ' || odd && strings.ContainsRune(`<>&/'`, r) || odd && r >= 0x80 && r < 0x10000:
			if r == '/' {
				b = append(b, `\/`...)
				continue
			}
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
