package vllmsim

// blockPool is the paged KV memory of one engine: a fixed number of blocks,
// those of running sequences counted by reference, the others in a list in the
// order in which they will be reused. A block that holds a published prefix
// keeps it until it is reused, which is what makes it a cache.
//
// The order follows vLLM's free-block queue: a finished sequence gives back its
// last block first, so that of two blocks of equal age the deeper one, which
// fewer prompts can share, goes first. Blocks that hold nothing are reused
// before any that do.
type blockPool struct {
	blocks []block          // the last one is the list's sentinel
	index  map[uint64]int32 // published prefix → block
	free   int
}

type block struct {
	hash       uint64 // 0: nothing published
	refs       int32  // sequences that hold it; 0: in the free list
	prev, next int32
}

func newBlockPool(n int) *blockPool {
	p := &blockPool{blocks: make([]block, n+1), index: make(map[uint64]int32, n), free: n}
	for i := range p.blocks {
		p.blocks[i].prev = int32((i + n) % (n + 1))
		p.blocks[i].next = int32((i + 1) % (n + 1))
	}
	return p
}

func (p *blockPool) capacity() int   { return len(p.blocks) - 1 }
func (p *blockPool) sentinel() int32 { return int32(len(p.blocks) - 1) }

// match returns how many leading hashes are held, and how many of those blocks
// are in the free list now.
func (p *blockPool) match(hashes []uint64) (held, idle int) {
	for _, h := range hashes {
		b, ok := p.index[h]
		if !ok {
			break
		}
		if p.blocks[b].refs == 0 {
			idle++
		}
		held++
	}
	return held, idle
}

// acquire takes a reference on the block that holds h.
func (p *blockPool) acquire(h uint64) int32 {
	b := p.index[h]
	if p.blocks[b].refs == 0 {
		p.unlink(b)
	}
	p.blocks[b].refs++
	return b
}

// allocate takes the block whose turn it is, forgetting what it held.
// The caller has seen that free is not zero.
func (p *blockPool) allocate() int32 {
	b := p.blocks[p.sentinel()].next
	p.unlink(b)
	blk := &p.blocks[b]
	if blk.hash != 0 {
		delete(p.index, blk.hash)
		blk.hash = 0
	}
	blk.refs = 1
	return b
}

// publish makes the contents of b known under h. A block in use that holds the
// same prefix already (two prompts computed it at the same time) stays the one
// that is known, and b private; an idle one, which was not read because a
// prompt's last token is always computed, is given up for b. vLLM keeps both
// copies; here as there the prefix lives as long as its younger copy.
func (p *blockPool) publish(b int32, h uint64) {
	if old, ok := p.index[h]; ok {
		if p.blocks[old].refs > 0 {
			return
		}
		p.blocks[old].hash = 0
		p.unlink(old)
		p.link(old, p.sentinel(), p.blocks[p.sentinel()].next)
	}
	p.blocks[b].hash = h
	p.index[h] = b
}

// release gives back references, the last block first.
func (p *blockPool) release(held []int32) {
	for i := len(held) - 1; i >= 0; i-- {
		b := held[i]
		blk := &p.blocks[b]
		blk.refs--
		if blk.refs > 0 {
			continue
		}
		end := p.sentinel()
		if blk.hash == 0 {
			p.link(b, end, p.blocks[end].next)
		} else {
			p.link(b, p.blocks[end].prev, end)
		}
	}
}

// reset forgets every prefix that no running sequence holds.
func (p *blockPool) reset() {
	for i := range p.blocks[:p.capacity()] {
		b := &p.blocks[i]
		if b.refs == 0 && b.hash != 0 {
			delete(p.index, b.hash)
			b.hash = 0
		}
	}
}

func (p *blockPool) unlink(b int32) {
	blk := &p.blocks[b]
	p.blocks[blk.prev].next, p.blocks[blk.next].prev = blk.next, blk.prev
	p.free--
}

func (p *blockPool) link(b, prev, next int32) {
	p.blocks[b].prev, p.blocks[b].next = prev, next
	p.blocks[prev].next, p.blocks[next].prev = b, b
	p.free++
}
