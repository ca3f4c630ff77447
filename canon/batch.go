package canon

import "sort"

// A parallel batch is what one assistant turn called and what came back. The
// results arrive in the order in which the tools finished, so a program that
// appends them as they come sends one history in many orders
// (vercel/ai#16567, strands-agents/harness-sdk#2112). A batch is complete at
// the moment it holds as many results as there were calls; then, if the ids
// are all present, unique and the same on both sides, the results are put in
// call order. Nothing after the batch is looked at, so that canonical bytes
// stay a prefix of what the next turn sends.

// orderResults orders tool messages among w.order[base:], the messages of a
// chat, and blocks of tool results in the messages of Anthropic's shape.
func (w *writer) orderResults(base int) {
	list := w.order[base:]
	for at := range list {
		calls := w.find(list[at], nToolCalls)
		if calls == 0 || w.kind(calls) != kindArray || !w.roleIs(list[at], "assistant") {
			continue // a tool's message that calls would let batches overlap
		}
		n := w.length(calls, len(list))
		if n < 2 || at+n >= len(list) {
			continue
		}
		ids := make([]uint32, 0, 2*n)
		for k, end := calls+1, w.nodes[calls].aux; k < end; k = w.next(k) {
			ids = append(ids, w.find(k, nId))
		}
		if len(ids) != n {
			continue
		}
		results := list[at+1 : at+1+n]
		for _, m := range results {
			if !w.roleIs(m, "tool") {
				break
			}
			ids = append(ids, w.find(m, nToolCallId))
		}
		w.permute(results, ids)
	}
}

// orderOutputs orders the outputs among w.order[base:], the items of a
// Responses request: a run of function calls followed by their outputs.
func (w *writer) orderOutputs(base int) {
	list := w.order[base:]
	for at := 0; at < len(list); at++ {
		n := 0
		for at+n < len(list) && w.typeIs(list[at+n], "function_call") {
			n++
		}
		if n == 0 {
			continue
		}
		if n > 1 && at+2*n <= len(list) {
			ids := make([]uint32, 0, 2*n)
			for _, call := range list[at : at+n] {
				ids = append(ids, w.find(call, nCallId))
			}
			results := list[at+n : at+2*n]
			for _, m := range results {
				if !w.typeIs(m, "function_call_output") {
					break
				}
				ids = append(ids, w.find(m, nCallId))
			}
			w.permute(results, ids)
		}
		at += n - 1
	}
}

func (w *writer) roleIs(i uint32, name string) bool {
	r := w.find(i, nRole)
	return r != 0 && w.is(r, name)
}

func (w *writer) typeIs(i uint32, name string) bool {
	t := w.find(i, nType)
	return t != 0 && w.is(t, name)
}

// permute puts results into call order. ids holds the nodes of the ids of the
// calls, then those of the results. Without a full match nothing moves, and
// permute reports false.
func (w *writer) permute(results []uint32, ids []uint32) bool {
	n := len(results)
	if len(ids) != 2*n {
		return false
	}
	place := make(map[string]int, n) // call id → its place
	for k, id := range ids[:n] {
		if id == 0 || w.kind(id) != kindString || w.nodes[id].aux == 0 {
			return false
		}
		s := string(w.decoded(id))
		if _, twice := place[s]; twice {
			return false
		}
		place[s] = k
	}
	sorted := make([]uint32, n)
	for k, id := range ids[n:] {
		if id == 0 || w.kind(id) != kindString {
			return false
		}
		at, ok := place[string(w.decoded(id))]
		if !ok || sorted[at] != 0 {
			return false
		}
		sorted[at] = results[k]
	}
	copy(results, sorted)
	return true
}

// reordered is a list of parts of which the first ones are written in another
// order: the tool results of Anthropic's shape, which share one message.
type reordered struct {
	list  uint32
	parts []uint32 // the first parts, in the order to write
	after uint32   // node after them in the source
}

// orderBlocks finds tool results to order among w.order[base:], the messages
// of Anthropic's shape: an assistant message with tool_use blocks, followed by
// a user message that begins with their results.
func (w *writer) orderBlocks(base int) {
	list := w.order[base:]
	for at := 0; at+1 < len(list); at++ {
		if !w.roleIs(list[at], "assistant") || !w.roleIs(list[at+1], "user") {
			continue
		}
		calls := w.find(list[at], nContent)
		results := w.find(list[at+1], nContent)
		if calls == 0 || results == 0 || w.kind(calls) != kindArray || w.kind(results) != kindArray {
			continue
		}
		var ids []uint32
		for k, end := calls+1, w.nodes[calls].aux; k < end; k = w.next(k) {
			if w.typeIs(k, "tool_use") {
				ids = append(ids, w.find(k, nId))
			}
		}
		n := len(ids)
		if n < 2 {
			continue
		}
		parts := make([]uint32, 0, n)
		k := results + 1
		for end := w.nodes[results].aux; k < end && len(parts) < n && w.typeIs(k, "tool_result"); k = w.next(k) {
			parts = append(parts, k)
			ids = append(ids, w.find(k, nToolUseId))
		}
		if len(parts) == n && w.permute(parts, ids) {
			w.moved = append(w.moved, reordered{list: results, parts: parts, after: k})
		}
	}
}

// movedIn returns what to write first of the list at i, and the node of the
// part after that.
func movedIn(moved []reordered, i uint32) (first []uint32, rest uint32) {
	k := sort.Search(len(moved), func(k int) bool { return moved[k].list >= i })
	if k < len(moved) && moved[k].list == i {
		return moved[k].parts, moved[k].after
	}
	return nil, i + 1
}
