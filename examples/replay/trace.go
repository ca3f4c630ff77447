package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// A trace is traffic to replay, in order of arrival.
type trace struct {
	name     string
	block    int // tokens of one block
	requests []*request
	closed   bool // some requests wait for the one before them

	shortened int // requests that were too long for the engine
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

	next  *request      // sent when this one is over (closed loop)
	think time.Duration // and this much later
}

// traceLine is one line of a file in the format of Mooncake's traces (FAST'25),
// with two optional members of our own.
type traceLine struct {
	Timestamp float64  `json:"timestamp"` // milliseconds
	Input     int      `json:"input_length"`
	Output    int      `json:"output_length"`
	Hashes    []uint64 `json:"hash_ids"`
	Session   *int     `json:"session"`
	Block     int      `json:"block_size"` // on the first line; else blockTokens
}

// blockTokens is the size of a block in Mooncake's traces.
const blockTokens = 512

// maxLine bounds a line of a trace file; the longest of the published ones has
// two thousand hashes, about 20 KB.
const maxLine = 16 << 20

func loadTrace(path string) (*trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &trace{name: path, block: blockTokens}
	sessions := false
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, maxLine)
	for n := 1; sc.Scan(); n++ {
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		var l traceLine
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w; each line is to be an object with timestamp, input_length, output_length and hash_ids", path, n, err)
		}
		if l.Block > 0 && len(t.requests) == 0 {
			t.block = l.Block
		}
		r := &request{
			at:     time.Duration(l.Timestamp * float64(time.Millisecond)),
			prompt: max(l.Input, 1), output: max(l.Output, 1), hashes: l.Hashes, session: -1,
		}
		for i := range r.hashes {
			r.hashes[i]++ // the simulator's blocks have no hash of 0
		}
		if l.Session != nil {
			r.session, sessions = *l.Session, true
		}
		t.requests = append(t.requests, r)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(t.requests) == 0 {
		return nil, fmt.Errorf("%s: %w", path, errEmptyTrace)
	}
	slices.SortStableFunc(t.requests, byArrival)
	for _, r := range t.requests {
		// Only full blocks can be shared.
		r.hashes = r.hashes[:min(len(r.hashes), r.prompt/t.block)]
	}
	if !sessions {
		t.deriveSessions()
	}
	t.derivePrefixes()
	return t, nil
}

var errEmptyTrace = errors.New("no requests in it")

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
		if r.prompt+r.output > most {
			t.shortened++
			r.output = min(r.output, max(1, most/2))
			r.prompt = max(1, most-r.output)
			r.hashes = r.hashes[:min(len(r.hashes), r.prompt/t.block)]
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
