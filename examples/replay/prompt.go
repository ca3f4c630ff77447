package main

import (
	"math/bits"

	"github.com/prefixwise/prefixwise/affinity"
)

// charactersPerToken turns tokens into the bytes that package affinity counts
// in: traces of hashes have no text.
const charactersPerToken = 4

// rootTokens is how much of a first user message counts as the root: 64 KiB of
// text, as package canon has it.
const rootTokens = 64 << 10 / charactersPerToken

// prompt is what a client's package canon would tell its router of r.
func (t *trace) routing(r *request, prefixLength int) affinity.Request {
	if r.outline != nil {
		return r.outline.request(prefixLength)
	}
	q := affinity.Request{Root: mix(uint64(r.session) + 1<<40), Prefix: t.firstCharacters(r, prefixLength)}
	if r.head > 0 {
		q.Head = r.hashes[r.head-1]
	}
	if capped := r.head + rootTokens/t.block; r.root >= capped && len(r.hashes) >= capped {
		q.Root = r.hashes[capped-1]
	}
	step := 0 // boundaries lie ever farther apart, as in canon's long texts
	for i := 1; i <= len(r.hashes); i++ {
		at := depthStep(i)
		if at == step && i != r.head && i != r.previous && i != len(r.hashes) {
			continue
		}
		step = at
		q.Boundaries = append(q.Boundaries, affinity.Boundary{Hash: r.hashes[i-1], Bytes: i * t.block * charactersPerToken})
		if i == r.previous {
			q.Previous = len(q.Boundaries)
		}
	}
	// The last boundary of a prompt is its end, and is found again in the next
	// turn. Traces have no hash for the part of a block behind the last full
	// one, so the last full block stands for the end.
	if n := len(q.Boundaries); n > 0 {
		q.Boundaries[n-1].Bytes = r.prompt * charactersPerToken
	} else {
		q.Boundaries = []affinity.Boundary{{Hash: mix(q.Root ^ uint64(r.prompt)), Bytes: r.prompt * charactersPerToken}}
	}
	return q
}

// depthStep numbers the depths at which a prompt has boundaries: four to each
// doubling.
func depthStep(blocks int) int {
	n := bits.Len(uint(blocks))
	return 4*n + blocks<<2>>(n-1)&3
}

// firstCharacters hashes the first characters of a prompt, rounded up to whole
// blocks; a prompt that is shorter counts with all it has.
func (t *trace) firstCharacters(r *request, length int) uint64 {
	tokens := length / charactersPerToken
	if tokens >= r.prompt {
		whole := mix(uint64(r.session)<<20 ^ uint64(r.prompt))
		if n := len(r.hashes); n > 0 && r.prompt > n*t.block {
			return mix(r.hashes[n-1] ^ whole)
		} else if n > 0 {
			return r.hashes[n-1]
		}
		return whole
	}
	if len(r.hashes) == 0 {
		return mix(uint64(r.session)<<20 ^ uint64(r.prompt))
	}
	return r.hashes[min(len(r.hashes), (tokens+t.block-1)/t.block)-1]
}

// mix is the finalizer of SplitMix64, a bijection.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
