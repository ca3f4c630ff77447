package affinity

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Domains keep hashes of different meaning apart: a session called "x" and a
// cache key called "x" must not meet. They are eight bytes each and carry the
// key version; another text moves every key of every fleet, which is a
// breaking change.
const (
	domainHead     = "pw1:head"
	domainRoot     = "pw1:root"
	domainSession  = "pw1:sess"
	domainPrefix   = "pw1:pref"
	domainEndpoint = "pw1:node"
)

// Keys returns the two keys of a request: head, which all conversations with
// the same tools and system text share, and root, which all turns of one
// conversation share. Tenant and cache key are mixed into both, and a session
// replaces the conversation in root. A key is 0 when nothing is known that it
// could be made of.
//
// A key is the xxHash64 of 32 bytes: domain, hash or session, tenant, cache
// key, in little-endian order, each text by its own xxHash64. The widths are
// fixed, so no two different requests are the same bytes under it.
func (r *Request) Keys() (head, root uint64) {
	s := r.scope()
	return s.head(r), s.root(r)
}

// scope is what keeps requests apart: the hashes of tenant and cache key, which
// a pick works out once.
type scope struct {
	tenant, cacheKey uint64
	shared           bool // by all who name neither
}

func (r *Request) scope() scope {
	return scope{xxhash.Sum64String(r.Tenant), xxhash.Sum64String(r.CacheKey), r.Tenant == "" && r.CacheKey == ""}
}

func (s scope) head(r *Request) uint64 {
	if r.Head == 0 {
		return 0
	}
	return s.key(domainHead, r.Head)
}

func (s scope) root(r *Request) uint64 {
	switch {
	case r.Session != "":
		return s.key(domainSession, xxhash.Sum64String(r.Session))
	case r.Root != 0:
		return s.key(domainRoot, r.Root)
	}
	return 0
}

// rooted tells whether there is anything to make a root key of.
func (r *Request) rooted() bool { return r.Session != "" || r.Root != 0 }

// index keeps what the index knows of a tenant's prompts, or of a cache key's,
// from others: one whose requests go where another's are cached could find out by
// timing what those were. No other process sees it.
func (s scope) index() uint64 {
	if s.shared {
		return 0
	}
	return mix(s.tenant ^ mix(s.cacheKey))
}

func (s scope) key(domain string, hash uint64) uint64 {
	var words [32]byte // stays on the stack: a pick does not allocate
	copy(words[:8], domain)
	binary.LittleEndian.PutUint64(words[8:], hash)
	binary.LittleEndian.PutUint64(words[16:], s.tenant)
	binary.LittleEndian.PutUint64(words[24:], s.cacheKey)
	return xxhash.Sum64(words[:])
}

// hashID hashes an endpoint's identity once, when it joins, so that ordering
// the endpoints for a key costs one integer mix each.
func hashID(id string) uint64 {
	var words [16]byte
	copy(words[:8], domainEndpoint)
	binary.LittleEndian.PutUint64(words[8:], xxhash.Sum64String(id))
	return xxhash.Sum64(words[:])
}
