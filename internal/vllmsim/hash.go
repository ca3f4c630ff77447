package vllmsim

import "github.com/cespare/xxhash/v2"

// ChainRoot returns the value that the block hashes of a prompt start from: it
// keeps apart what may not share cache blocks, the adapter (empty for the base
// model) and the cache salt. vLLM puts the adapter's name into every block and
// the salt into the first; as the hashes are chained, the effect is the same.
func ChainRoot(adapter, cacheSalt string) uint64 {
	d := xxhash.New()
	for _, s := range []string{adapter, cacheSalt} {
		n := uint64(len(s))
		d.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
		d.WriteString(s)
	}
	return d.Sum64()
}

// BlockHashes appends to dst one hash for each full block of tokens, each over
// the hash before it and the block's tokens, so that equal hashes mean equal
// prefixes. A last block that is not full has none.
func BlockHashes(dst []uint64, root uint64, tokens []uint32, blockTokens int) []uint64 {
	h := root
	for len(tokens) >= blockTokens {
		for _, t := range tokens[:blockTokens] {
			h = mix(h ^ uint64(t))
		}
		if h == 0 { // 0 marks a block that holds nothing
			h = 1
		}
		dst = append(dst, h)
		tokens = tokens[blockTokens:]
	}
	return dst
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of
// 64-bit words in which every input bit moves about half of the output bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
