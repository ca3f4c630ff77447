package vllmsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// The Anthropic-style Messages API that vLLM serves beside its own. Requests
// become conversations, so the same words give the same prompt on both.

type messagesRequest struct {
	Model     string             `json:"model"`
	System    json.RawMessage    `json:"system"`
	Messages  []anthropicMessage `json:"messages"`
	MaxTokens *int               `json:"max_tokens"`
	Stream    bool               `json:"stream"`
	Tools     []struct {
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicBlock struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	Name     string          `json:"name"`    // tool_use
	Input    json.RawMessage `json:"input"`   // tool_use
	Content  json.RawMessage `json:"content"` // tool_result
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	var req messagesRequest
	var f anthropic
	if e := decode(w, r, &req); e != nil {
		f.writeError(w, e)
		return
	}
	j, e := s.messagesJob(r, &req)
	if e != nil {
		f.writeError(w, e)
		return
	}
	s.serve(w, r, j, &f, false)
}

func (s *Server) messagesJob(r *http.Request, req *messagesRequest) (*job, *apiError) {
	if len(req.Messages) == 0 || req.MaxTokens == nil {
		return nil, invalidBody("body", "messages and max_tokens are required")
	}
	c, err := req.conversation()
	if err != nil {
		return nil, badRequest("%v", err)
	}
	prompt, err := c.render()
	if err != nil {
		return nil, badRequest("%v", err)
	}
	return s.newJob(s.requestID(r, "msg_"), &sampling{Model: req.Model, MaxTokens: req.MaxTokens, Stream: req.Stream},
		[][]uint32{prompt})
}

func (req *messagesRequest) conversation() (*conversation, error) {
	c := &conversation{}
	system, err := blocks(req.System)
	if err != nil {
		return nil, err
	}
	if t := text(system); t != "" {
		c.Messages = append(c.Messages, textMessage("system", t))
	}
	for _, t := range req.Tools {
		d := toolDefinition{Type: "function"}
		d.Function.Name, d.Function.Description, d.Function.Parameters = t.Name, t.Description, t.InputSchema
		c.Tools = append(c.Tools, d)
	}
	for i, m := range req.Messages {
		bs, err := blocks(m.Content)
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		turn := textMessage(m.Role, text(bs))
		for _, b := range bs {
			switch b.Type {
			case "thinking":
				turn.Reasoning = &b.Thinking
			case "tool_use":
				turn.ToolCalls = append(turn.ToolCalls, pastCall(b))
			case "tool_result":
				result, err := blocks(b.Content)
				if err != nil {
					return nil, fmt.Errorf("messages[%d]: %w", i, err)
				}
				c.Messages = append(c.Messages, textMessage("tool", text(result)))
			}
		}
		if len(bs) == 0 || bs[0].Type != "tool_result" || text(bs) != "" {
			c.Messages = append(c.Messages, turn)
		}
	}
	return c, nil
}

func pastCall(b anthropicBlock) (t chatToolCall) {
	t.Function.Name, t.Function.Arguments = b.Name, b.Input
	return t
}

// blocks reads content that is a text or a list of blocks.
func blocks(raw json.RawMessage) ([]anthropicBlock, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []anthropicBlock{{Type: "text", Text: s}}, nil
	}
	var bs []anthropicBlock
	if err := json.Unmarshal(raw, &bs); err != nil {
		return nil, fmt.Errorf("content is neither a string nor a list of blocks: %w", err)
	}
	return bs, nil
}

func text(bs []anthropicBlock) string {
	var texts []string
	for _, b := range bs {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// anthropic writes messages and their events.
type anthropic struct {
	finish string
}

// stopReason is null where Anthropic's API has no word for it: "abort".
func stopReason(finish string) any {
	switch finish {
	case "length":
		return "max_tokens"
	case "stop":
		return "end_turn"
	}
	return nil
}

func (f *anthropic) event(b *bytes.Buffer, kind string, v map[string]any) {
	v["type"] = kind
	b.WriteString("event: " + kind + "\n")
	event(b, v)
}

func anthropicUsage(u usage) map[string]any {
	m := map[string]any{"input_tokens": u.PromptTokens, "output_tokens": u.CompletionTokens}
	if u.Details != nil { // then input_tokens are without the cached ones, as Anthropic's
		m["input_tokens"] = u.PromptTokens - u.Details.CachedTokens
		m["cache_read_input_tokens"] = u.Details.CachedTokens
	}
	return m
}

func (f *anthropic) opened(b *bytes.Buffer, j *job, now []progress) {
	u := j.usage(now)
	u.CompletionTokens, u.Details = 0, nil // as vLLM, which tells at the end what was cached
	f.event(b, "message_start", map[string]any{"message": map[string]any{"id": j.id, "type": "message",
		"role": "assistant", "content": []any{}, "model": j.model, "stop_reason": nil, "stop_sequence": nil,
		"usage": anthropicUsage(u)}})
}

func (f *anthropic) began(b *bytes.Buffer, _ *job, _ int) {
	f.event(b, "content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
}

func (f *anthropic) delta(b *bytes.Buffer, _ *job, _ int, text, finish string, _ *usage) {
	if text != "" {
		f.event(b, "content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": text}})
	}
	f.finish = finish
}

func (f *anthropic) failed(b *bytes.Buffer, e *apiError) {
	f.event(b, "error", map[string]any{"error": map[string]any{"type": e.Type, "message": e.Message}})
}

func (f *anthropic) closed(b *bytes.Buffer, _ *job, u usage, done bool) {
	f.event(b, "content_block_stop", map[string]any{"index": 0})
	f.event(b, "message_delta", map[string]any{"delta": map[string]any{"stop_reason": stopReason(f.finish), "stop_sequence": nil},
		"usage": anthropicUsage(u)})
	if done {
		f.event(b, "message_stop", map[string]any{})
	}
}

func (f *anthropic) whole(j *job, texts, finishes []string, u usage) any {
	return map[string]any{"id": j.id, "type": "message", "role": "assistant", "model": j.model,
		"content":     []any{map[string]any{"type": "text", "text": texts[0]}},
		"stop_reason": stopReason(finishes[0]), "stop_sequence": nil, "usage": anthropicUsage(u)}
}

func (f *anthropic) writeError(w http.ResponseWriter, e *apiError) {
	writeJSON(w, e.Code, map[string]any{"type": "error", "error": map[string]any{"type": e.Type, "message": e.Message}})
}
