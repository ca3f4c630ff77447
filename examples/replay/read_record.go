package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/prefixwise/prefixwise/middleware"
)

// recordLine takes one call of a recording.
func (r *reader) recordLine(_ int, text []byte) error {
	var c middleware.Record
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	if len(c.Boundaries) == 0 {
		return fmt.Errorf("no boundaries: a call to %s that is not routed by its prompt", c.API)
	}
	if n := c.Boundaries[len(c.Boundaries)-1].Bytes; n > maxLine {
		return fmt.Errorf("a prompt of %d bytes is longer than any engine takes", n)
	}
	at, err := sinceEpochOf(c.Time)
	if err != nil {
		return err
	}
	o := &outline{
		api: c.API, model: c.Model, head: c.Head, root: c.Root, boundaries: c.Boundaries,
		session: hex(c.Session), tenant: hex(c.Tenant), cacheKey: hex(c.CacheKey), tokens: max(c.PromptTokens, 0),
	}
	r.trace.requests = append(r.trace.requests, &request{outline: o, at: at, output: orDefaultOutput(c.CompletionTokens)})
	return nil
}

// hex writes a hashed id, "" for none.
func hex(h uint64) string {
	if h == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", h)
}

// defaultOutput is the length of an answer of which nothing is known, in
// tokens: that of the simulator.
const defaultOutput = 256

func orDefaultOutput(tokens int) int {
	if tokens <= 0 {
		return defaultOutput
	}
	return tokens
}

// outlinesDone makes a trace of what was read: times from 0, sessions, blocks.
func (r *reader) outlinesDone() {
	t := r.trace
	slices.SortStableFunc(t.requests, byArrival)
	t.begin = t.requests[0].at
	for _, q := range t.requests {
		q.at -= t.begin
	}
	t.nameSessions()
	t.cutText(t.bytesToAToken(), textBlock)
	t.derivePrefixes()
}

// textBlock is the size of the blocks that text is cut into where the engine's
// is not known: vLLM's default on GPUs.
const textBlock = 16
