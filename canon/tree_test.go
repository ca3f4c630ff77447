package canon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree is a JSON value as encoding/json reads it, with the order of members
// and the digits of numbers kept. It is the tests' own view of a document,
// independent of the package's parser.
type tree struct {
	kind byte // o, a, s, n(umber), t, f, 0
	text string
	kids []branch
}

type branch struct {
	name string
	val  *tree
}

func decode(b []byte) (*tree, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	t, err := decodeValue(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("trailing data")
	}
	return t, nil
}

func decodeValue(d *json.Decoder) (*tree, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := tok.(type) {
	case json.Delim:
		t := &tree{kind: 'a'}
		if v == '{' {
			t.kind = 'o'
		}
		for d.More() {
			var b branch
			if t.kind == 'o' {
				name, err := d.Token()
				if err != nil {
					return nil, err
				}
				b.name = name.(string)
			}
			if b.val, err = decodeValue(d); err != nil {
				return nil, err
			}
			t.kids = append(t.kids, b)
		}
		_, err := d.Token()
		return t, err
	case string:
		return &tree{kind: 's', text: v}, nil
	case json.Number:
		return &tree{kind: 'n', text: string(v)}, nil
	case bool:
		if v {
			return &tree{kind: 't'}, nil
		}
		return &tree{kind: 'f'}, nil
	default:
		return &tree{kind: '0'}, nil
	}
}

func mustDecode(t testing.TB, b []byte) *tree {
	t.Helper()
	v, err := decode(b)
	require.NoError(t, err, "%s", b)
	return v
}

// String spells the tree compactly, in its order. Two trees are equal exactly
// when their spellings are.
func (t *tree) String() string {
	var b strings.Builder
	t.write(&b)
	return b.String()
}

func (t *tree) write(b *strings.Builder) {
	switch t.kind {
	case 's':
		fmt.Fprintf(b, "%q", t.text)
	case 'n':
		b.WriteString(t.text)
	case 'o', 'a':
		b.WriteByte(t.kind)
		b.WriteByte('(')
		for _, k := range t.kids {
			if t.kind == 'o' {
				fmt.Fprintf(b, "%q:", k.name)
			}
			k.val.write(b)
			b.WriteByte(' ')
		}
		b.WriteByte(')')
	default:
		b.WriteByte(t.kind)
	}
}

func (t *tree) get(name string) *tree {
	if t == nil || t.kind != 'o' {
		return nil
	}
	for _, k := range t.kids {
		if k.name == name {
			return k.val
		}
	}
	return nil
}

// at follows a path of names and indexes.
func (t *tree) at(path ...any) *tree {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			t = t.get(p)
		case int:
			if t == nil || p >= len(t.kids) {
				return nil
			}
			t = t.kids[p].val
		}
	}
	return t
}

// sorted is the tree with the members of every object sorted: what two
// documents have in common that differ in member order alone.
func (t *tree) sorted() *tree {
	s := &tree{kind: t.kind, text: t.text}
	for _, k := range t.kids {
		s.kids = append(s.kids, branch{k.name, k.val.sorted()})
	}
	if t.kind == 'o' {
		sort.SliceStable(s.kids, func(i, j int) bool { return s.kids[i].name < s.kids[j].name })
	}
	return s
}
