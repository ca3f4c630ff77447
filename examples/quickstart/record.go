package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"

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

// record writes what was sent and answered, one request a line, and closes f.
func (a *arm) record(f *os.File) error {
	buffer := bufio.NewWriter(f)
	lines := json.NewEncoder(buffer)
	for _, answer := range a.done {
		if answer.err != nil {
			continue
		}
		l := logged{Timestamp: answer.at.Seconds(), Session: answer.session, Body: answer.request}
		l.Usage.Prompt, l.Usage.Completion = answer.prompt, answer.written
		if err := lines.Encode(l); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(buffer.Flush(), f.Close())
}
