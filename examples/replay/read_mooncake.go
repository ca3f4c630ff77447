package main

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// mooncakeLine is one line of a file in the format of Mooncake's traces
// (FAST'25), with two optional members of our own.
type mooncakeLine struct {
	Timestamp float64  `json:"timestamp"` // milliseconds
	Input     *int     `json:"input_length"`
	Output    int      `json:"output_length"`
	Hashes    []uint64 `json:"hash_ids"`
	Session   *int     `json:"session"`
	Block     int      `json:"block_size"` // on the first line; else blockTokens
}

// blockTokens is the size of a block in Mooncake's traces.
const blockTokens = 512

func (r *reader) mooncakeLine(_ int, text []byte) error {
	var l mooncakeLine
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	switch {
	case l.Input != nil && *l.Input < 0 || l.Output < 0 || l.Block < 0:
		return errors.New("a length is negative")
	case l.Input == nil || l.Hashes == nil:
		return errors.New(`not a request of a Mooncake trace: want "input_length" and "hash_ids"`)
	case l.Timestamp < 0 || l.Timestamp > 1e15:
		return errors.New("the timestamp is not in milliseconds since the beginning")
	}
	t := r.trace
	if len(t.requests) == 0 {
		t.reference, t.block = true, blockTokens
		if l.Block > 0 {
			t.block = l.Block
		}
	}
	q := &request{
		at:     time.Duration(l.Timestamp * float64(time.Millisecond)),
		prompt: max(*l.Input, 1), output: max(l.Output, 1), hashes: l.Hashes, session: -1,
	}
	for i := range q.hashes {
		q.hashes[i]++ // the simulator's blocks have no hash of 0
	}
	if l.Session != nil {
		q.session, t.hasSessions = *l.Session, true
	}
	t.requests = append(t.requests, q)
	return nil
}

func (r *reader) mooncakeDone() {
	t := r.trace
	slices.SortStableFunc(t.requests, byArrival)
	for _, q := range t.requests {
		// Only full blocks can be shared.
		q.hashes = q.hashes[:min(len(q.hashes), q.prompt/t.block)]
	}
	if !t.hasSessions {
		t.deriveSessions()
	}
	t.derivePrefixes()
}
