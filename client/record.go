package client

import (
	"errors"

	"github.com/prefixwise/prefixwise/middleware"
)

// WithRecorder records every call: when it came, the hashes and lengths of its
// prompt's prefixes, and what became of it; no text. With the recording,
// examples/replay shows what another strategy or fleet would make of the same
// traffic. Close r after the client. The default is to record nothing.
//
//	file, err := middleware.OpenRecordFile("traffic.jsonl", middleware.RecordFileOptions{})
//	if err != nil { … }
//	defer file.Close()
//	recorder, err := middleware.NewRecorder(file, middleware.RecorderOptions{})
//	if err != nil { … }
//	defer recorder.Close()
//	c, err := client.New(client.WithEndpoints(…), client.WithRecorder(recorder))
func WithRecorder(r *middleware.Recorder) Option {
	return optionFunc(func(c *config) {
		if r == nil {
			c.problems = append(c.problems, errors.New("WithRecorder was given nil; give it a recorder from middleware.NewRecorder"))
			return
		}
		c.observers = append(c.observers, r.Trace())
	})
}
