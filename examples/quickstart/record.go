package main

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/sashabaranov/go-openai"
)

// logged is a request as a log of requests has it: one of the formats that
// examples/replay reads.
type logged struct {
	Timestamp float64                      `json:"timestamp"` // seconds since the beginning
	Session   string                       `json:"session,omitempty"`
	Body      openai.ChatCompletionRequest `json:"body"`
	Usage     struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
}

// record writes what was sent and answered, one request a line.
func (a *arm) record(w io.Writer) error {
	buffer := bufio.NewWriter(w)
	lines := json.NewEncoder(buffer)
	for _, answer := range a.done {
		if answer.err != nil {
			continue
		}
		l := logged{Timestamp: answer.at.Seconds(), Session: answer.session, Body: answer.request}
		l.Usage.Prompt, l.Usage.Completion = answer.prompt, answer.written
		if err := lines.Encode(l); err != nil {
			return err
		}
	}
	return buffer.Flush()
}
