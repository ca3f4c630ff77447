package canon

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// Bounds of the cache of canonical tool lists. A fleet's clients know a few
// agents each; 64 lists of 16 KB are 2 MB with both forms.
const (
	cacheEntries = 64
	cacheBytes   = 8 << 20
	cacheLargest = 1 << 20
	// cacheKey is how many bytes of a list choose its bucket. A shorter list is
	// cheap to write anew.
	cacheKey = 256
	// cacheBucket bounds how many lists with one beginning are compared.
	cacheBucket = 8
	// cacheSeen is how many lists are remembered by hash alone. A list is kept
	// from its second sight on, so that lists which differ each time cost no
	// copying.
	cacheSeen = 256
)

// toolForm is one canonical form of a list of tools.
type toolForm struct {
	bytes []byte
	hash  uint64
}

// toolEntry is a list of tools that was met before.
type toolEntry struct {
	api    API
	raw    []byte
	plain  toolForm
	sorted toolForm // with properties sorted; Strong only
	used   atomic.Bool
}

func (e *toolEntry) form(sorted bool) *toolForm {
	if sorted {
		return &e.sorted
	}
	return &e.plain
}

func (e *toolEntry) size() int { return len(e.raw) + len(e.plain.bytes) + len(e.sorted.bytes) }

// toolCache knows lists of tools by their raw bytes, which are compared in
// full: a collision of hashes costs a comparison and can never swap tools.
// Readers take no lock.
type toolCache struct {
	buckets atomic.Pointer[map[uint64][]*toolEntry]

	mu    sync.Mutex
	queue []*toolEntry // oldest first
	bytes int
	seen  [cacheSeen]uint64
}

func newToolCache() *toolCache {
	c := &toolCache{}
	c.buckets.Store(&map[uint64][]*toolEntry{})
	return c
}

func bucketOf(api API, raw []byte) uint64 {
	return xxhash.Sum64(raw[:cacheKey]) + uint64(api)
}

// find returns the entry that src starts with, or nil. A list ends with its
// own bracket, so what follows in src cannot belong to it.
func (c *toolCache) find(api API, src []byte) *toolEntry {
	if len(src) < cacheKey {
		return nil
	}
	for _, e := range (*c.buckets.Load())[bucketOf(api, src)] {
		if e.api == api && len(e.raw) <= len(src) && bytes.Equal(e.raw, src[:len(e.raw)]) {
			if !e.used.Load() {
				e.used.Store(true)
			}
			return e
		}
	}
	return nil
}

// worth reports whether a list that was not found should be added now: it has
// been seen before and is of a size that pays.
func (c *toolCache) worth(raw []byte) bool {
	if len(raw) < cacheKey || len(raw) > cacheLargest {
		return false
	}
	h := xxhash.Sum64(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := &c.seen[h%cacheSeen]
	if *slot == h {
		return true
	}
	*slot = h
	return false
}

// add keeps an entry, and lets go of those that were not used lately when the
// bounds are passed (the clock algorithm).
func (c *toolCache) add(e *toolEntry) {
	key := bucketOf(e.api, e.raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.buckets.Load()
	for _, o := range old[key] {
		if o.api == e.api && bytes.Equal(o.raw, e.raw) {
			return
		}
	}
	buckets := make(map[uint64][]*toolEntry, len(old)+1)
	for k, b := range old {
		buckets[k] = b
	}
	bucket := append([]*toolEntry{e}, buckets[key]...)
	buckets[key] = bucket
	c.queue = append(c.queue, e)
	c.bytes += e.size()
	if len(bucket) > cacheBucket {
		c.remove(buckets, bucket[len(bucket)-1])
	}
	for len(c.queue) > cacheEntries || c.bytes > cacheBytes {
		first := c.queue[0]
		if first.used.Swap(false) {
			c.queue = append(c.queue[1:], first)
			continue
		}
		c.remove(buckets, first)
	}
	c.buckets.Store(&buckets)
}

// remove takes e out of the queue and out of buckets, a map that no reader has
// seen yet. Slices in it are shared with readers and are not changed.
func (c *toolCache) remove(buckets map[uint64][]*toolEntry, e *toolEntry) {
	for i, o := range c.queue {
		if o == e {
			c.queue = append(c.queue[:i], c.queue[i+1:]...)
			break
		}
	}
	c.bytes -= e.size()
	key := bucketOf(e.api, e.raw)
	var left []*toolEntry
	for _, o := range buckets[key] {
		if o != e {
			left = append(left, o)
		}
	}
	if left == nil {
		delete(buckets, key)
		return
	}
	buckets[key] = left
}
