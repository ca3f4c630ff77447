package main

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/prefixwise/prefixwise/canon"
)

// trie holds the prompts of earlier requests, segment by segment, and tells how
// much of a new one some earlier one has: a cache that forgets nothing.
type trie struct {
	children []*node // sorted by kind, name and text
}

type node struct {
	trie
	kind canon.SegmentKind
	name string
	text []byte
	last int // the latest request that came through here
}

// piece is a segment as the trie sees it.
type piece struct {
	kind canon.SegmentKind
	name string
	text []byte
	size int // bytes of prompt
}

// piecesOf returns the prompt of an outline, with or without what looks
// volatile.
func piecesOf(o *canon.Outline, steady bool) []piece {
	all := make([]piece, len(o.Segments))
	for i := range o.Segments {
		s := &o.Segments[i]
		p := piece{kind: s.Kind, name: s.Name, text: s.Text, size: s.Size}
		if steady {
			p.text = canon.Steady(s)
			p.size = max(0, s.Size-(len(s.Text)-len(p.text)))
		}
		all[i] = p
	}
	return all
}

// add puts a prompt in as that of request index. It returns how many of its
// bytes the best earlier prompt has too, and which request that was, -1 if
// there is none.
func (t *trie) add(pieces []piece, index int) (shared, best int) {
	best = -1
	matching := true
	for _, p := range pieces {
		at, found := slices.BinarySearchFunc(t.children, p, func(n *node, p piece) int { return n.compare(p) })
		if !found {
			if matching {
				matching = false
				n, like := t.likest(at, p)
				shared += n
				if like != nil {
					best = like.last
				}
			}
			t.children = slices.Insert(t.children, at, &node{kind: p.kind, name: p.name, text: bytes.Clone(p.text), last: index})
		} else if matching {
			shared += p.size
			best = t.children[at].last
		}
		t.children[at].last = index
		t = &t.children[at].trie
	}
	return shared, best
}

func (n *node) compare(p piece) int {
	return cmp.Or(cmp.Compare(n.kind, p.kind), cmp.Compare(n.name, p.name), bytes.Compare(n.text, p.text))
}

// likest returns the child with the longest beginning in common with p, which
// is next to the place where p would stand, and how long that is.
func (t *trie) likest(at int, p piece) (int, *node) {
	best, found := 0, (*node)(nil)
	for _, k := range []int{at - 1, at} {
		if k < 0 || k >= len(t.children) {
			continue
		}
		n := t.children[k]
		if n.kind != p.kind || n.name != p.name {
			continue
		}
		if common := prefix(n.text, p.text); found == nil || common > best {
			best, found = common, n
		}
	}
	return min(best, p.size), found
}

func prefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
