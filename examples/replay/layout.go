package main

// A trace of hashes says how long prompts are and which of them begin alike. To
// send them to an engine that reads text they are laid out as messages: what is
// the head becomes the system message, and each later request of a conversation
// has the messages of the one before it, then an answer, then a new message.

// layout is how a prompt of hashes is written as messages.
type layout struct {
	messages []span
	tail     uint64 // stands for the hash of what comes after the last full block
}

// span is one message: the prompt's tokens from the end of the one before to here.
type span struct {
	role string
	end  int // in tokens
}

// layouts lays out every request of the trace that has no text of its own.
func (t *trace) layouts() []layout {
	all := make([]layout, len(t.requests))
	sessions := map[int][]*request{}
	for _, r := range t.requests {
		sessions[r.session] = append(sessions[r.session], r)
	}
	for _, requests := range sessions {
		var before *request
		for _, r := range requests {
			l := &all[r.position]
			if before == nil {
				l.messages = t.firstTurn(r)
			} else {
				l.messages = t.laterTurn(all[before.position].messages, before, r)
			}
			before = r
		}
		// Where a prompt goes on in the next request, the rest behind its last
		// full block is the beginning of that one's next block.
		for i := len(requests) - 1; i >= 0; i-- {
			r := requests[i]
			n := len(r.hashes)
			all[r.position].tail = mix(uint64(r.session)<<24 ^ uint64(r.position) ^ 1<<60)
			if i+1 == len(requests) {
				continue
			}
			switch next := requests[i+1]; {
			case !continues(r, next):
			case len(next.hashes) > n:
				all[r.position].tail = next.hashes[n]
			default:
				all[r.position].tail = all[next.position].tail
			}
		}
	}
	return all
}

// continues tells whether b begins with all of a, as far as hashes tell.
func continues(a, b *request) bool {
	return b.prompt >= a.prompt && inCommon(a.hashes, b.hashes) == len(a.hashes)
}

func (t *trace) firstTurn(r *request) []span {
	user := span{"user", r.prompt}
	if head := r.head * t.block; head > 0 && head < r.prompt {
		return []span{{"system", head}, user}
	}
	return []span{user}
}

func (t *trace) laterTurn(messages []span, before, r *request) []span {
	shared := inCommon(before.hashes, r.hashes) * t.block
	if continues(before, r) {
		shared = before.prompt
	}
	n := 0
	for n < len(messages) && messages[n].end <= shared && messages[n].end < r.prompt {
		n++
	}
	kept := messages[:n:n]
	if n == 0 || kept[n-1].role != "user" {
		return append(kept, span{"user", r.prompt})
	}
	end := kept[n-1].end
	if r.prompt-end < 2 { // no room for an answer and a question
		return append(kept[:n-1:n-1], span{"user", r.prompt})
	}
	answer := min(max(before.output, 1), r.prompt-end-1)
	return append(kept, span{"assistant", end + answer}, span{"user", r.prompt})
}

// blockAt returns the hash of the block in which a token lies.
func (t *trace) blockAt(r *request, l *layout, token int) uint64 {
	if i := token / t.block; i < len(r.hashes) {
		return r.hashes[i]
	}
	return l.tail
}
