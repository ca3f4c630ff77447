package vllmsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// The Responses API, in its plain form: text in, one message out. Responses are
// stored in the instance that made them, as vLLM does when asked to, so that
// previous_response_id works there and nowhere else.

type responseRequest struct {
	Model           string          `json:"model"`
	Input           json.RawMessage `json:"input"`
	Instructions    *string         `json:"instructions"`
	Tools           []responseTool  `json:"tools"`
	MaxOutputTokens *int            `json:"max_output_tokens"`
	Previous        string          `json:"previous_response_id"`
	Store           *bool           `json:"store"`
	Stream          bool            `json:"stream"`
	CacheSalt       *string         `json:"cache_salt"`
}

// responseTool is the flat form of a function.
type responseTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
}

type responseAnswer struct {
	ID        string           `json:"id"`
	Object    string           `json:"object"`
	CreatedAt int64            `json:"created_at"`
	Status    string           `json:"status"`
	Model     string           `json:"model"`
	Output    []responseOutput `json:"output"`
	Previous  *string          `json:"previous_response_id"`
	Usage     responseUsage    `json:"usage"`
}

type responseOutput struct {
	ID      string         `json:"id"`
	Type    string         `json:"type"`
	Role    string         `json:"role"`
	Status  string         `json:"status"`
	Content []responseText `json:"content"`
}

type responseText struct {
	Type        string     `json:"type"`
	Text        string     `json:"text"`
	Annotations []struct{} `json:"annotations"`
}

type responseUsage struct {
	InputTokens  int           `json:"input_tokens"`
	Details      *usageDetails `json:"input_tokens_details,omitempty"`
	OutputTokens int           `json:"output_tokens"`
	TotalTokens  int           `json:"total_tokens"`
}

func (s *Server) createResponse(w http.ResponseWriter, r *http.Request) {
	var req responseRequest
	if e := decode(w, r, &req); e != nil {
		writeError(w, e)
		return
	}
	if req.Stream {
		writeError(w, &apiError{Message: "Streams of the Responses API are not simulated.",
			Type: "NotImplementedError", Code: http.StatusNotImplemented})
		return
	}
	var c conversation
	if req.Previous != "" {
		before, ok := s.stored.get(req.Previous)
		if !ok {
			writeError(w, unknownResponse(req.Previous))
			return
		}
		c.Messages = append(c.Messages, before.messages...)
	}
	turn, err := inputMessages(req.Input)
	if err != nil {
		writeError(w, badRequest("%v", err))
		return
	}
	c.Messages = append(c.Messages, turn...)
	history := c.Messages
	if req.Instructions != nil { // of this response only, as the API defines it
		c.Messages = append([]chatMessage{textMessage("system", *req.Instructions)}, c.Messages...)
	}
	for _, t := range req.Tools {
		var d toolDefinition
		d.Type, d.Function.Name, d.Function.Description = t.Type, t.Name, t.Description
		d.Function.Parameters, d.Function.Strict = t.Parameters, t.Strict
		c.Tools = append(c.Tools, d)
	}
	prompt, err := c.render()
	if err != nil {
		writeError(w, badRequest("%v", err))
		return
	}
	p := &sampling{Model: req.Model, MaxTokens: req.MaxOutputTokens, CacheSalt: req.CacheSalt}
	j, e := s.newJob(s.requestID(r, "resp_"), p, [][]uint32{prompt})
	if e != nil {
		writeError(w, e)
		return
	}
	f := &responseFormat{history: history, previous: req.Previous}
	if req.Store == nil || *req.Store {
		f.store = &s.stored
	}
	s.serve(w, r, j, f, false)
}

func (s *Server) getResponse(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if x, ok := s.stored.get(id); ok {
		writeJSON(w, http.StatusOK, x.answer)
	} else {
		writeError(w, unknownResponse(id))
	}
}

func unknownResponse(id string) *apiError {
	return &apiError{Message: fmt.Sprintf("Response with id '%s' not found.", id),
		Type: "invalid_request_error", Code: http.StatusNotFound}
}

func textMessage(role, text string) chatMessage {
	return chatMessage{Role: role, Content: appendPythonString(nil, text)}
}

// inputMessages reads a text or a list of items, of which messages are kept
// and others (calls and their results among them) are ignored.
func inputMessages(raw json.RawMessage) ([]chatMessage, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []chatMessage{textMessage("user", text)}, nil
	}
	var items []chatMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("input is neither a string nor a list: %w", err)
	}
	var kept []chatMessage
	for _, m := range items {
		if m.Role != "" {
			kept = append(kept, m)
		}
	}
	return kept, nil
}

// responseFormat makes one response and stores it.
type responseFormat struct {
	openAIText // for errors; there are no streams
	history    []chatMessage
	previous   string
	store      *responseStore
}

func (f *responseFormat) whole(j *job, texts, finishes []string, u usage) any {
	a := responseAnswer{ID: j.id, Object: "response", CreatedAt: j.created, Status: "completed", Model: j.model,
		Output: []responseOutput{{ID: "msg_" + j.id, Type: "message", Role: "assistant", Status: "completed",
			Content: []responseText{{Type: "output_text", Text: texts[0], Annotations: []struct{}{}}}}},
		Usage: responseUsage{u.PromptTokens, u.Details, u.CompletionTokens, u.TotalTokens}}
	if finishes[0] != "stop" {
		a.Status = "incomplete"
	}
	if f.previous != "" {
		a.Previous = &f.previous
	}
	if f.store != nil {
		messages := append(append([]chatMessage{}, f.history...), textMessage("assistant", texts[0]))
		f.store.put(j.id, storedResponse{messages, a})
	}
	return a
}

// storeLimit bounds what an instance remembers; vLLM has no bound.
const storeLimit = 1024

type storedResponse struct {
	messages []chatMessage
	answer   responseAnswer
}

type responseStore struct {
	mu    sync.Mutex
	byID  map[string]storedResponse
	order []string
}

func (s *responseStore) get(id string) (storedResponse, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.byID[id]
	return x, ok
}

func (s *responseStore) put(id string, x storedResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]storedResponse{}
	}
	if _, ok := s.byID[id]; !ok {
		s.order = append(s.order, id)
	}
	s.byID[id] = x
	if len(s.order) > storeLimit {
		delete(s.byID, s.order[0])
		s.order = s.order[1:]
	}
}
