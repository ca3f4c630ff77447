package trajectory

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Conversation is one run of an agent.
type Conversation struct {
	messages []*value
	steps    []int // messages before each answer of the assistant
	Batches  int   // parallel batches of two calls
}

// Steps returns how many requests the run takes.
func (c *Conversation) Steps() int { return len(c.steps) }

// Load reads the recordings under $PREFIXWISE_DATA, or under root, which is
// the way from the caller to the directory of data. Its error says what is
// missing; tests skip with it.
func Load(root string) ([]*Conversation, error) {
	if dir := os.Getenv("PREFIXWISE_DATA"); dir != "" {
		root = dir
	}
	raw, err := os.ReadFile(filepath.Join(root, "taubench", "gpt-4o-airline.json"))
	if err != nil {
		return nil, fmt.Errorf("trajectory: no recordings, set PREFIXWISE_DATA: %w", err)
	}
	var runs []struct {
		Messages []json.RawMessage `json:"traj"`
	}
	if err := json.Unmarshal(raw, &runs); err != nil {
		return nil, fmt.Errorf("trajectory: %w", err)
	}
	all := make([]*Conversation, len(runs))
	for i, r := range runs {
		all[i] = &Conversation{}
		for _, m := range r.Messages {
			v, err := parse(m)
			if err != nil {
				return nil, fmt.Errorf("trajectory: run %d: %w", i, err)
			}
			all[i].messages = append(all[i].messages, v)
		}
		all[i].merge()
		for n, m := range all[i].messages {
			if m.get("role").text == "assistant" {
				all[i].steps = append(all[i].steps, n)
			}
		}
	}
	return all, nil
}

// merge turns every second pair of consecutive calls into one batch of two:
// call, result, call, result becomes both calls, both results.
func (c *Conversation) merge() {
	var out []*value
	pairs := 0
	for i := 0; i < len(c.messages); i++ {
		m := c.messages[i]
		if i+3 < len(c.messages) && isCall(m) && isCall(c.messages[i+2]) &&
			isResultOf(c.messages[i+1], m) && isResultOf(c.messages[i+3], c.messages[i+2]) && callID(m) != callID(c.messages[i+2]) {
			pairs++
			if pairs%2 == 1 {
				calls := m.get("tool_calls")
				calls.kids = append(calls.kids, c.messages[i+2].get("tool_calls").kids...)
				out = append(out, m, c.messages[i+1], c.messages[i+3])
				c.Batches++
				i += 3
				continue
			}
		}
		out = append(out, m)
	}
	c.messages = out
}

func isCall(m *value) bool {
	return m.get("role").text == "assistant" && len(m.get("tool_calls").kids) == 1
}

func callID(m *value) string { return m.get("tool_calls").kids[0].val.get("id").text }

func isResultOf(m, call *value) bool {
	return m.get("role").text == "tool" && m.get("tool_call_id").text == callID(call)
}
