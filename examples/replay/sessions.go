package main

// Traces of hashes say which prompts begin alike, not who sent them or why. What
// a client would know of its own request, because it has the messages, is worked
// out here from the hashes.

// popularShare is the share of all requests above which a block is taken for
// common text (a system prompt) and not for part of a conversation.
const popularShare = 0.01

// deriveSessions makes a request part of the conversation whose last prompt it
// continues: the one that ended with a block of this prompt. The last block of
// a prompt is often cut differently in the next turn, so the last but one will
// do as well.
func (t *trace) deriveSessions() {
	uses := map[uint64]int{}
	for _, r := range t.requests {
		for _, h := range r.hashes {
			uses[h]++
		}
	}
	common := func(h uint64) bool { return float64(uses[h]) > popularShare*float64(len(t.requests)) }
	endsWith := map[uint64]int{}
	sessions := 0
	for _, r := range t.requests {
		r.session = -1
		for i := len(r.hashes) - 1; i >= 0 && !common(r.hashes[i]); i-- {
			if s, ok := endsWith[r.hashes[i]]; ok {
				r.session = s
				break
			}
		}
		if r.session < 0 {
			r.session = sessions
			sessions++
		}
		for _, h := range r.hashes[max(0, len(r.hashes)-2):] {
			if !common(h) {
				endsWith[h] = r.session
			}
		}
	}
}

// headSessions is the number of conversations that must share a block before it
// counts as part of a head.
const headSessions = 3

// derivePrefixes finds the head, the root and the previous prompt of each
// request. Requests must be in the order in which a conversation sends them.
func (t *trace) derivePrefixes() {
	last := map[int]*request{}
	for _, r := range t.requests {
		r.root, r.previous = len(r.hashes), 0
		if before := last[r.session]; before != nil {
			r.root = before.root
			r.previous = inCommon(before.hashes, r.hashes)
		}
		last[r.session] = r
	}
	type sharing struct{ session, sessions int }
	blocks := map[uint64]*sharing{}
	for _, r := range t.requests {
		for _, h := range r.hashes[:min(r.root, len(r.hashes))] {
			s := blocks[h]
			if s == nil {
				s = &sharing{session: -1}
				blocks[h] = s
			}
			if s.session != r.session && s.sessions < headSessions {
				s.session = r.session
				s.sessions++
			}
		}
	}
	for _, r := range t.requests {
		r.head = 0
		for r.head < min(r.root, len(r.hashes)) && blocks[r.hashes[r.head]].sessions >= headSessions {
			r.head++
		}
	}
}

// inCommon returns how many leading blocks two prompts share.
func inCommon(a, b []uint64) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
