package vllmsim

import (
	"bytes"
	"encoding/json"
	"net/http"
)

type chatRequest struct {
	sampling
	conversation
	ToolChoice json.RawMessage `json:"tool_choice"`
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var req chatRequest
	if e := decode(w, r, &req); e != nil {
		writeError(w, e)
		return
	}
	j, e := s.chatJob(r, &req)
	if e != nil {
		writeError(w, e)
		return
	}
	s.serve(w, r, j, openAIChat{usage: req.includeUsage()}, req.continuousUsage())
}

func (s *Server) chatJob(r *http.Request, req *chatRequest) (*job, *apiError) {
	if len(req.Messages) == 0 {
		if req.Messages == nil {
			return nil, invalidBody("body.messages", "Field required")
		}
		return nil, badRequest("Cannot apply chat template to an empty conversation. Provide at least one message.")
	}
	if req.Tools != nil && len(req.Tools) == 0 {
		return nil, emptyTools()
	}
	if c := string(req.ToolChoice); c != "" && c != "null" && c != `"none"` && req.Tools == nil {
		return nil, badParam("tool_choice", "When using `tool_choice`, `tools` must be set.")
	}
	prompt, err := req.render()
	if err != nil {
		return nil, badRequest("%v", err)
	}
	j, e := s.newJob(s.requestID(r, "chatcmpl-"), &req.sampling, [][]uint32{prompt})
	if e != nil {
		return nil, e
	}
	j.rendered = true
	return j, j.force(req, req.limit())
}

// openAIChat writes chat completions and their chunks.
type openAIChat struct {
	usage bool // the caller asked for the usage chunk
}

type chatChunk struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Choices     []chatChoice `json:"choices"`
	Usage       *usage       `json:"usage,omitempty"`
	Fingerprint *string      `json:"system_fingerprint,omitempty"`
}

type chatChoice struct {
	Index        int       `json:"index"`
	Delta        *chatText `json:"delta,omitempty"`
	Message      *chatText `json:"message,omitempty"`
	Logprobs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

type chatText struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	ToolCalls []chatCall `json:"tool_calls,omitempty"`
}

func (f openAIChat) chunk(b *bytes.Buffer, j *job, u *usage, choices ...chatChoice) {
	event(b, chatChunk{ID: j.id, Object: "chat.completion.chunk", Created: j.created, Model: j.model,
		Choices: append([]chatChoice{}, choices...), Usage: u, Fingerprint: j.fingerprint})
}

func (f openAIChat) opened(*bytes.Buffer, *job, []progress) {}

func (f openAIChat) began(b *bytes.Buffer, j *job, i int) {
	empty := ""
	f.chunk(b, j, nil, chatChoice{Index: i, Delta: &chatText{Role: "assistant", Content: &empty}})
	if c := j.choices[i].call; c != nil {
		f.chunk(b, j, nil, chatChoice{Index: i, Delta: &chatText{ToolCalls: []chatCall{{Index: new(int), ID: c.id,
			Type: "function", Function: chatCallFunction{Name: c.name}}}}})
	}
}

func (f openAIChat) delta(b *bytes.Buffer, j *job, i int, text, finish string, u *usage) {
	c := chatChoice{Index: i, Delta: &chatText{Content: &text}}
	if j.choices[i].call != nil {
		c.Delta = &chatText{ToolCalls: []chatCall{{Index: new(int), Function: chatCallFunction{Arguments: text}}}}
	}
	if finish != "" {
		c.FinishReason = &finish
	}
	f.chunk(b, j, u, c)
}

func (f openAIChat) failed(b *bytes.Buffer, e *apiError) {
	openAIFailed(b, e)
}

func (f openAIChat) closed(b *bytes.Buffer, j *job, u usage, done bool) {
	if f.usage {
		f.chunk(b, j, &u)
	}
	if done {
		b.WriteString("data: [DONE]\n\n")
	}
}

func (f openAIChat) whole(j *job, texts, finishes []string, u usage) any {
	a := chatChunk{ID: j.id, Object: "chat.completion", Created: j.created, Model: j.model, Usage: &u, Fingerprint: j.fingerprint}
	for i := range texts {
		m := &chatText{Role: "assistant", Content: &texts[i]}
		if c := j.choices[i].call; c != nil && finishes[i] != "abort" {
			m.Content = new(string)
			m.ToolCalls = []chatCall{{ID: c.id, Type: "function", Function: chatCallFunction{c.name, texts[i]}}}
		}
		a.Choices = append(a.Choices, chatChoice{Index: i, Message: m, FinishReason: &finishes[i]})
	}
	return a
}

func (f openAIChat) writeError(w http.ResponseWriter, e *apiError) { writeError(w, e) }

// openAIFailed is vLLM's end of a stream that breaks: the error as a frame, then
// [DONE] as if nothing had happened.
func openAIFailed(b *bytes.Buffer, e *apiError) {
	event(b, map[string]*apiError{"error": e})
	b.WriteString("data: [DONE]\n\n")
}
