package middleware

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
)

// HeaderPlacement is a response header that [Route] sets: where the response is
// from, for [Hints.Placement] of the conversation's next request, which may come
// from another process.
const HeaderPlacement = "X-Prefixwise-Placement"

// PlacementToken returns the token that stands for an endpoint. It is opaque, so
// that it can be stored with a conversation and even shown to its user without
// giving away an address, and the same in all processes. One that was tampered
// with stands for no endpoint and is ignored.
func PlacementToken(id string) string {
	named := append(make([]byte, 0, 128), "prefixwise/placement/1\x00"...)
	sum := sha256.Sum256(append(named, id...))
	return string(base64.RawURLEncoding.AppendEncode([]byte("p1."), sum[:12]))
}

// boundariesOf returns the prefixes of a prompt as the router wants them, each
// longer than the one before, and how many of them the request before had too.
// Fields that change what follows the last message are left out: the next
// request has its next message there.
func boundariesOf(p *canon.Result) (all []affinity.Boundary, previous int) {
	all = make([]affinity.Boundary, 0, len(p.Boundaries))
	for i, b := range p.Boundaries {
		if b.Kind == canon.Tail {
			break
		}
		next := affinity.Boundary{Hash: b.Hash, Bytes: b.Offset}
		if n := len(all); n > 0 && all[n-1].Bytes >= next.Bytes {
			// Nothing between the two is text, an image for example: the later one
			// says more. The head keeps its place, since the router asks for it.
			if all[n-1].Hash == p.Head {
				next.Bytes = all[n-1].Bytes + 1
				all = append(all, next)
			} else {
				next.Bytes = all[n-1].Bytes
				all[n-1] = next
			}
		} else {
			all = append(all, next)
		}
		if i+1 == p.Previous {
			previous = len(all)
		}
	}
	return all, previous
}
