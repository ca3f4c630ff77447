package main

// refined returns the trace cut into blocks of another size, as an engine with
// such blocks would see the text that is made for it.
func (t *trace) refined(block int) *trace {
	if block == t.block {
		return t
	}
	fine := new(trace)
	*fine = *t
	fine.block, fine.requests = block, nil
	layouts := t.layouts()
	copies := make([]request, len(t.requests))
	for i, r := range t.requests {
		c := &copies[i]
		*c = *r
		if r.next != nil {
			c.next = &copies[r.next.position]
		}
		c.head, c.root, c.previous = r.head*t.block/block, r.root*t.block/block, r.previous*t.block/block
		fine.requests = append(fine.requests, c)
		if r.outline != nil {
			continue
		}
		c.hashes = make([]uint64, r.prompt/block)
		for k := range c.hashes {
			// The hashes are chained: a block is known by its end.
			c.hashes[k] = mix(t.blockAt(r, &layouts[i], (k+1)*block-1)^uint64(k)<<40) | 1
		}
	}
	fine.cutText(t.bytesPerToken, block)
	return fine
}
