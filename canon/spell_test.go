package canon_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// spell writes v in a random spelling: whitespace, escapes.
func spell(rt *rapid.T, v *tree) string {
	var b strings.Builder
	speller{rt, &b}.value(v)
	return b.String()
}

type speller struct {
	rt *rapid.T
	b  *strings.Builder
}

func (s speller) chance(of int) bool { return rapid.IntRange(0, of-1).Draw(s.rt, "chance") == 0 }

func (s speller) space() {
	if s.chance(4) {
		s.b.WriteString(rapid.SampledFrom([]string{" ", "\n", "\t", "\r\n  ", "    "}).Draw(s.rt, "space"))
	}
}

func (s speller) value(v *tree) {
	s.space()
	defer s.space()
	switch v.kind {
	case 's':
		s.text(v.text)
	case 'n':
		s.b.WriteString(v.text)
	case 't':
		s.b.WriteString("true")
	case 'f':
		s.b.WriteString("false")
	case '0':
		s.b.WriteString("null")
	default:
		s.b.WriteByte(map[byte]byte{'o': '{', 'a': '['}[v.kind])
		s.space()
		for i, k := range v.kids {
			if i > 0 {
				s.b.WriteByte(',')
			}
			if v.kind == 'o' {
				s.space()
				s.text(k.name)
				s.space()
				s.b.WriteByte(':')
			}
			s.value(k.val)
		}
		s.b.WriteByte(map[byte]byte{'o': '}', 'a': ']'}[v.kind])
	}
}

func (s speller) text(t string) {
	s.b.WriteByte('"')
	odd := s.chance(3) // most strings are spelled plainly
	for _, r := range t {
		switch {
		case odd && s.chance(3) || r < ' ' && r != '\n' && r != '\t':
			format := rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(s.rt, "hex")
			if r > 0xFFFF {
				r -= 0x10000
				fmt.Fprintf(s.b, format+format, 0xD800+r>>10, 0xDC00+r&0x3FF)
			} else {
				fmt.Fprintf(s.b, format, r)
			}
		case r == '\n':
			s.b.WriteString(`\n`)
		case r == '\t':
			s.b.WriteString(`\t`)
		case r == '"' || r == '\\' || r == '/' && odd:
			s.b.WriteByte('\\')
			s.b.WriteRune(r)
		default:
			s.b.WriteRune(r)
		}
	}
	s.b.WriteByte('"')
}

// shuffled returns the kids in a random order.
func shuffled(rt *rapid.T, kids []branch) []branch {
	return rapid.Permutation(kids).Draw(rt, "order")
}

// Builders of trees.

func str(s string) *tree { return &tree{kind: 's', text: s} }
func num(s string) *tree { return &tree{kind: 'n', text: s} }
func null() *tree        { return &tree{kind: '0'} }

func boolean(b bool) *tree {
	if b {
		return &tree{kind: 't'}
	}
	return &tree{kind: 'f'}
}

func list(vs ...*tree) *tree {
	t := &tree{kind: 'a'}
	for _, v := range vs {
		t.kids = append(t.kids, branch{"", v})
	}
	return t
}

func object(pairs ...any) *tree {
	t := &tree{kind: 'o'}
	for i := 0; i < len(pairs); i += 2 {
		t.set(pairs[i].(string), pairs[i+1].(*tree))
	}
	return t
}

func (t *tree) set(name string, v *tree) *tree {
	t.kids = append(t.kids, branch{name, v})
	return t
}

func (t *tree) clone() *tree {
	c := &tree{kind: t.kind, text: t.text}
	for _, k := range t.kids {
		c.kids = append(c.kids, branch{k.name, k.val.clone()})
	}
	return c
}
