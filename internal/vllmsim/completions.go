package vllmsim

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// promptInput is a prompt in any of the forms that the API takes: a text, a
// list of texts, token ids, or a list of token ids.
type promptInput [][]uint32

func (p *promptInput) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*p = promptInput{Tokenize(text)}
		return nil
	}
	var texts []string
	if json.Unmarshal(raw, &texts) == nil {
		*p = make(promptInput, len(texts))
		for i, t := range texts {
			(*p)[i] = Tokenize(t)
		}
		return nil
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil {
		*p = promptInput{ids}
		return nil
	}
	return json.Unmarshal(raw, (*[][]uint32)(p))
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	var req struct {
		sampling
		Prompt promptInput `json:"prompt"`
	}
	e := decode(w, r, &req)
	if e == nil && len(req.Prompt) == 0 {
		e = invalidBody("body.prompt", "Field required")
	}
	if e == nil && req.MaxTokens == nil {
		short := 16 // the API's own default for completions
		req.MaxTokens = &short
	}
	var j *job
	if e == nil {
		j, e = s.newJob(s.requestID(r, "cmpl-"), &req.sampling, req.Prompt)
	}
	if e != nil {
		writeError(w, e)
		return
	}
	s.serve(w, r, j, openAIText{usage: req.includeUsage()}, req.continuousUsage())
}

// openAIText writes completions and their chunks.
type openAIText struct {
	usage bool
}

type textChunk struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Choices     []textChoice `json:"choices"`
	Usage       *usage       `json:"usage,omitempty"`
	Fingerprint *string      `json:"system_fingerprint,omitempty"`
}

type textChoice struct {
	Index        int       `json:"index"`
	Text         string    `json:"text"`
	Logprobs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

func (f openAIText) chunk(b *bytes.Buffer, j *job, u *usage, choices ...textChoice) {
	event(b, textChunk{ID: j.id, Object: "text_completion", Created: j.created, Model: j.model,
		Choices: append([]textChoice{}, choices...), Usage: u, Fingerprint: j.fingerprint})
}

func (f openAIText) opened(*bytes.Buffer, *job, []progress) {}
func (f openAIText) began(*bytes.Buffer, *job, int)         {}

func (f openAIText) delta(b *bytes.Buffer, j *job, i int, text, finish string, u *usage) {
	c := textChoice{Index: i, Text: text}
	if finish != "" {
		c.FinishReason = &finish
	}
	f.chunk(b, j, u, c)
}

func (f openAIText) failed(b *bytes.Buffer, e *apiError) { openAIFailed(b, e) }

func (f openAIText) closed(b *bytes.Buffer, j *job, u usage, done bool) {
	if f.usage {
		f.chunk(b, j, &u)
	}
	if done {
		b.WriteString("data: [DONE]\n\n")
	}
}

func (f openAIText) whole(j *job, texts, finishes []string, u usage) any {
	a := textChunk{ID: j.id, Object: "text_completion", Created: j.created, Model: j.model, Usage: &u, Fingerprint: j.fingerprint}
	for i := range texts {
		a.Choices = append(a.Choices, textChoice{Index: i, Text: texts[i], FinishReason: &finishes[i]})
	}
	return a
}

func (f openAIText) writeError(w http.ResponseWriter, e *apiError) { writeError(w, e) }
