//go:build vllm

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// trajectory is a conversation that grows by an assistant's turn and what
// answers it.
type trajectory struct {
	class    string
	tools    []fields
	messages []fields
	// next appends to messages; said is what the engine answered.
	next func(c *trajectory, said string)
	// answer is how many tokens the engine is to generate.
	answer int
}

// predicted is one request with what the boundaries say of it.
type predicted struct {
	Class     string `json:"class"`
	Turn      int    `json:"turn"`
	Prompt    int    `json:"prompt_tokens"`
	Predicted int    `json:"predicted"`
	Reported  int    `json:"reported"`
	Boundary  string `json:"boundary"`
}

// words is English-like text of n words.
func words(rng *rand.Rand, n int) string {
	list := strings.Fields("the model reads a prompt and writes an answer while other requests wait for memory to become free on one of the instances of this fleet")
	var b strings.Builder
	for range n {
		b.WriteString(list[rng.IntN(len(list))])
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

func toolset(rng *rand.Rand, n int) []fields {
	var tools []fields
	for i := range n {
		tools = append(tools, fields{"type": "function", "function": fields{"name": fmt.Sprintf("tool_%d", i), "description": words(rng, 15),
			"parameters": fields{"type": "object", "properties": fields{"path": fields{"type": "string"}, "limit": fields{"type": "integer"}}, "required": []string{"path"}}}})
	}
	return tools
}

// call is a turn with n parallel calls and their results.
func (c *trajectory) call(rng *rand.Rand, n int) {
	var calls, results []fields
	for i := range n {
		id := fmt.Sprintf("call_%d_%d", len(c.messages), i)
		calls = append(calls, fields{"id": id, "type": "function", "function": fields{
			"name": fmt.Sprintf("tool_%d", rng.IntN(6)), "arguments": fmt.Sprintf(`{"path":%q,"limit":%d}`, words(rng, 3), rng.IntN(100))}})
		results = append(results, fields{"role": "tool", "tool_call_id": id, "content": words(rng, 40+rng.IntN(300))})
	}
	c.messages = append(c.messages, fields{"role": "assistant", "content": nil, "tool_calls": calls})
	c.messages = append(c.messages, results...)
}

// TestBoundariesPredictTheCache follows agent trajectories and chats, and
// compares what the engine had cached with the deepest boundary that an earlier
// request had too.
func TestBoundariesPredictTheCache(t *testing.T) {
	e := engines(t)[0]
	rng := rand.New(rand.NewPCG(1, 2))
	var all []*trajectory
	add := func(class string, answer int, tools []fields, system, user string, next func(*trajectory, string)) {
		all = append(all, &trajectory{class: class, answer: answer, tools: tools, next: next,
			messages: []fields{{"role": "system", "content": system}, {"role": "user", "content": user}}})
	}
	for range 2 { // two applications
		system, tools := fresh()+words(rng, 150), toolset(rng, 6)
		for range 5 {
			add("agent", 1, tools, system, words(rng, 60), func(c *trajectory, _ string) { c.call(rng, 1+rng.IntN(3)) })
			// An agent that says something of its own before each call: its
			// text comes back as the engine wrote it.
			add("agent, generated turns", 48, tools, system, words(rng, 60), func(c *trajectory, said string) {
				c.call(rng, 1)
				c.messages[len(c.messages)-2]["content"] = said
			})
		}
		document := fresh() + words(rng, 900)
		for i := range 4 {
			add("one document, other questions", 1, nil, system, fmt.Sprintf("%s Question %d: %s", document, i, words(rng, 20)),
				func(c *trajectory, _ string) {
					c.messages = append(c.messages, fields{"role": "assistant", "content": "Yes."}, fields{"role": "user", "content": words(rng, 30)})
				})
			add("one system text, other tools", 1, toolset(rng, 2), system, words(rng, 20), func(c *trajectory, _ string) { c.call(rng, 1) })
		}
	}

	seen := map[uint64]bool{}
	var rows []predicted
	for turn := range 6 {
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, c := range all {
			body, err := json.Marshal(fields{"model": e.model, "messages": c.messages, "max_tokens": c.answer, "temperature": 0, "ignore_eos": true, "tools": c.tools})
			require.NoError(t, err)
			r, err := canon.Canonicalize(canon.Chat, body)
			require.NoError(t, err)
			require.Equal(t, canon.OK, r.Diagnosis.Code)
			var deepest *canon.Boundary
			depth := 0 // which of its message's text boundaries it is
			for i, b := range r.Boundaries {
				if !seen[b.Hash] {
					continue
				}
				deepest = &r.Boundaries[i]
				depth = 0
				for j := i; j >= 0 && r.Boundaries[j].Kind == canon.Text && r.Boundaries[j].Message == b.Message; j-- {
					depth++
				}
			}
			row := predicted{Class: c.class, Turn: turn, Boundary: "none"}
			if deepest != nil {
				row.Boundary = deepest.Kind.String()
				row.Predicted = e.prefix(t, c, *deepest, depth)
			}
			for _, b := range r.Boundaries {
				seen[b.Hash] = true
			}
			a := e.post(t, "/v1/chat/completions", r.Body)
			require.Equal(t, http.StatusOK, a.status, "%s", a.body)
			row.Prompt = a.number(t, "usage.prompt_tokens")
			row.Reported = a.number(t, "usage.prompt_tokens_details.cached_tokens")
			row.Predicted = min(row.Predicted, row.Prompt-1) / e.block * e.block
			rows = append(rows, row)
			said, _ := a.at(t, "choices.0.message.content").(string)
			c.next(c, said)
		}
	}

	type sum struct{ requests, within, prompt, predicted, reported int }
	sums := map[string]*sum{}
	for _, r := range rows {
		s := sums[r.Class]
		if s == nil {
			s = &sum{}
			sums[r.Class] = s
		}
		s.requests++
		s.prompt += r.Prompt
		s.predicted += r.Predicted
		s.reported += r.Reported
		if d := r.Reported - r.Predicted; -e.block <= d && d <= e.block {
			s.within++
		}
	}
	for class, s := range sums {
		t.Logf("%-32s %3d requests, within a block %5.1f %%, prompt %6d, predicted %6d, reported %6d",
			class, s.requests, 100*float64(s.within)/float64(s.requests), s.prompt, s.predicted, s.reported)
	}
	record(t, "boundaries.json", rows)
	agents := sum{}
	for _, class := range []string{"agent", "agent, generated turns"} {
		agents.requests += sums[class].requests
		agents.within += sums[class].within
	}
	assert.GreaterOrEqual(t, float64(agents.within), 0.95*float64(agents.requests))
	for _, r := range rows {
		assert.LessOrEqual(t, r.Predicted, r.Reported+e.block, "the boundaries promise what the engine does not have: %+v", r)
	}
}

// prefix is the number of tokens of the rendered prompt up to a boundary; depth
// counts the text boundaries of its message up to it.
func (e endpoint) prefix(t *testing.T, c *trajectory, b canon.Boundary, depth int) int {
	if b.Message < 0 {
		return 0 // before any message: this template puts the system text first
	}
	messages := append([]fields(nil), c.messages[:b.Message+1]...)
	ending := 0
	if b.Kind == canon.Text {
		last := fields{}
		for k, v := range messages[b.Message] {
			last[k] = v
		}
		last["content"] = last["content"].(string)[:1024<<(depth-1)]
		messages[b.Message] = last
		ending = 2 // the tokens that close a message
	}
	return e.tokens(t, fields{"model": e.model, "messages": messages, "tools": c.tools, "add_generation_prompt": false}) - ending
}
