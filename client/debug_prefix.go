package client

import (
	"cmp"
	"fmt"
	"slices"
)

func hexOf(h uint64) string { return fmt.Sprintf("%016x", h) }

// hotPrefix is a beginning that several prompts of the sample share.
type hotPrefix struct {
	Hash      hash `json:"hash"`
	Calls     int  `json:"calls"`
	Bytes     int  `json:"bytes"`     // of prompt text
	Tokens    int  `json:"tokens"`    // about
	Instances int  `json:"instances"` // that have been sent it
}

// maxHotPrefixes is how many are shown.
const maxHotPrefixes = 12

// hottest returns the prefixes whose caching saves most: length times calls
// beyond the first. Of prefixes that the same calls share only the longest is
// listed.
func hottest(calls []sampled) []hotPrefix {
	type node struct {
		hotPrefix
		longer int // the most calls that a longer prefix of these has
		where  map[string]bool
	}
	nodes := map[uint64]*node{}
	for i := range calls {
		var before *node
		for _, m := range slices.Backward(calls[i].marks) {
			n := nodes[m.hash]
			if n == nil {
				n = &node{hotPrefix: hotPrefix{Hash: hash(m.hash), Bytes: m.bytes}, where: map[string]bool{}}
				nodes[m.hash] = n
			}
			n.Calls++
			n.where[calls[i].where] = true
			if before != nil {
				n.longer = max(n.longer, before.Calls)
			}
			before = n
		}
	}
	perByte := tokensPerByte(calls)
	hot := []hotPrefix{}
	for _, n := range nodes {
		if n.Calls > 1 && n.longer < n.Calls {
			n.Tokens, n.Instances = int(float64(n.Bytes)*perByte), len(n.where)
			hot = append(hot, n.hotPrefix)
		}
	}
	worth := func(p hotPrefix) int { return p.Bytes * (p.Calls - 1) }
	slices.SortFunc(hot, func(a, b hotPrefix) int {
		return cmp.Or(cmp.Compare(worth(b), worth(a)), cmp.Compare(a.Hash, b.Hash))
	})
	return hot[:min(len(hot), maxHotPrefixes)]
}
