package client

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/sashabaranov/go-openai"
)

// transcript is the messages of a session, each in the JSON that is sent. A
// message is never changed, and messages are only added at the end, so a copy
// of the struct, or of a slice, stays as it was.
type transcript struct {
	messages []json.RawMessage
	calls    []string          // ids of the last answer's calls while results are missing
	results  []json.RawMessage // of the calls, nil where missing
}

// add adds messages, all or none.
func (t *transcript) add(messages ...json.RawMessage) error {
	next := *t
	next.results = slices.Clone(t.results)
	for _, m := range messages {
		if err := next.one(m); err != nil {
			return err
		}
	}
	*t = next
	return nil
}

// one adds a message; t is undefined after an error.
func (t *transcript) one(raw json.RawMessage) error {
	var m struct {
		Role       string `json:"role"`
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []struct {
			ID string `json:"id"`
		} `json:"tool_calls"`
	}
	if json.Unmarshal(raw, &m) != nil || m.Role == "" {
		return errors.New("prefixwise: session: a message has no role, or its members have types that no message has")
	}
	if m.Role == openai.ChatMessageRoleTool {
		return t.result(m.ToolCallID, raw)
	}
	if err := t.complete(); err != nil {
		return err
	}
	t.messages = append(t.messages, raw)
	if m.Role == openai.ChatMessageRoleAssistant && len(m.ToolCalls) > 0 {
		t.calls, t.results = nil, make([]json.RawMessage, len(m.ToolCalls))
		for _, call := range m.ToolCalls {
			t.calls = append(t.calls, call.ID)
		}
	}
	return nil
}

// result adds the result of a call. Engines have been seen to give two calls of
// a batch one id; their results are then taken in order.
func (t *transcript) result(id string, raw json.RawMessage) error {
	known := false
	for i, call := range t.calls {
		if call != id {
			continue
		}
		known = true
		if t.results[i] == nil {
			t.results[i] = raw
			if len(t.open()) == 0 {
				t.messages = append(t.messages, t.results...)
				t.calls, t.results = nil, nil
			}
			return nil
		}
	}
	e := &ToolResultError{Problem: ToolResultUnknown, IDs: []string{id}, Open: t.open()}
	if known || len(t.calls) == 0 && t.answered(id) {
		e.Problem = ToolResultDoubled
	}
	return e
}

// open returns the ids of the calls that have no result yet.
func (t *transcript) open() []string {
	var ids []string
	for i, id := range t.calls {
		if t.results[i] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// complete returns an error when calls wait for their results.
func (t *transcript) complete() error {
	if ids := t.open(); len(ids) > 0 {
		return &ToolResultError{Problem: ToolResultMissing, IDs: ids, Open: ids}
	}
	return nil
}

// answered reports whether id has its result in the batch at the end.
func (t *transcript) answered(id string) bool {
	for i := len(t.messages) - 1; i >= 0; i-- {
		if roleOf(t.messages[i]) != openai.ChatMessageRoleTool {
			return false
		}
		if decoded(t.messages[i]).ToolCallID == id {
			return true
		}
	}
	return false
}

// messageList spells the messages as the member "messages" of a request.
func messageList(messages []json.RawMessage) json.RawMessage {
	size := 2
	for _, m := range messages {
		size += len(m) + 1
	}
	out := append(make([]byte, 0, size), '[')
	for i, m := range messages {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, m...)
	}
	return append(out, ']')
}

func roleOf(raw json.RawMessage) string {
	var m struct {
		Role string `json:"role"`
	}
	_ = json.Unmarshal(raw, &m)
	return m.Role
}
