package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// A trace is traffic to replay, in order of arrival.
type trace struct {
	name     string
	block    int // tokens of one block
	requests []*request
	closed   bool // some requests wait for the one before them

	begin         time.Duration // since 1970, of the first request; 0: unknown
	reference     bool          // its rate is meant for referenceInstances
	hasSessions   bool          // the file says which requests belong together
	bytesPerToken float64       // with which the lengths of text were worked out; 0: they are the trace's own
	untimed       int           // requests that came without a time
	shortened     int           // requests that were too long for the engine
	badLines      int           // lines that were left out
	bad           []string      // the first of them, and why
}

// A request is one prompt. Its hashes are chained: equal hashes mean that the
// prompts are equal up to the end of that block.
type request struct {
	at      time.Duration
	prompt  int // tokens
	output  int // tokens
	hashes  []uint64
	session int

	head     int // leading blocks that other conversations share: tools and system text
	root     int // leading blocks that the conversation's first request had
	previous int // leading blocks that the conversation's last request had; 0 for the first

	position int // in the trace

	outline *outline // of a prompt that came as text or was recorded, nil for one of hashes only

	next  *request      // sent when this one is over (closed loop)
	think time.Duration // and this much later
}

func byArrival(a, b *request) int { return int(a.at - b.at) }

// number sets the positions of the requests.
func (t *trace) number() {
	for i, r := range t.requests {
		r.position = i
	}
}

// opening returns the requests that wait for no other.
func (t *trace) opening() []*request {
	waits := map[*request]bool{}
	for _, r := range t.requests {
		if r.next != nil {
			waits[r.next] = true
		}
	}
	var first []*request
	for _, r := range t.requests {
		if !waits[r] {
			first = append(first, r)
		}
	}
	return first
}

// scale makes the requests come factor times as fast.
func (t *trace) scale(factor float64) {
	for _, r := range t.requests {
		r.at = time.Duration(float64(r.at) / factor)
		r.think = time.Duration(float64(r.think) / factor)
	}
}

// cut keeps the first part of the trace only.
func (t *trace) cut(length time.Duration) {
	kept := map[*request]bool{}
	for _, r := range t.requests {
		kept[r] = r.at < length
	}
	t.requests = slices.DeleteFunc(t.requests, func(r *request) bool { return !kept[r] })
	for _, r := range t.requests {
		if !kept[r.next] {
			r.next = nil
		}
	}
}

// fit shortens prompts that would be longer, with their answers, than most
// tokens, and counts them.
func (t *trace) fit(most int) {
	for _, r := range t.requests {
		if r.prompt > most-r.output { // not the sum, which may not be an int
			t.shortened++
			r.output = min(r.output, max(1, most/2))
			r.prompt = max(1, most-r.output)
			r.hashes = r.hashes[:min(len(r.hashes), r.prompt/t.block)]
			n := len(r.hashes)
			r.head, r.root, r.previous = min(r.head, n), min(r.root, n), min(r.previous, n)
		}
	}
}

// infiniteHitRate is the share of prompt tokens that one infinite cache would
// have, were every prompt in it as soon as it comes. It is what perfect
// placement could reach, load aside.
func (t *trace) infiniteHitRate() float64 {
	seen := map[uint64]bool{}
	var hit, all float64
	for _, r := range t.requests {
		all += float64(r.prompt)
		n := 0
		for n < len(r.hashes) && seen[r.hashes[n]] {
			n++
		}
		for _, h := range r.hashes[n:] {
			seen[h] = true
		}
		hit += float64(min(n*t.block, r.prompt-1))
	}
	return hit / max(all, 1)
}

func (t *trace) duration() time.Duration {
	var last time.Duration
	for _, r := range t.requests {
		last = max(last, r.at)
	}
	return last
}

// complain says what was left out of a file or made up for it.
func (t *trace) complain(w io.Writer) {
	if t.badLines > 0 {
		fmt.Fprintf(w, "%d lines of %s are left out:\n", t.badLines, t.name)
		for _, why := range t.bad {
			fmt.Fprintf(w, "  %s\n", why)
		}
		if more := t.badLines - len(t.bad); more > 0 {
			fmt.Fprintf(w, "  … and %d more\n", more)
		}
	}
	if t.untimed > 0 {
		fmt.Fprintf(w, "%d requests have no time and arrive by chance (-arrivals)\n", t.untimed)
	}
}
