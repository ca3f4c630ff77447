package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// trajectory is one session of an agent in the format of tau-bench.
type trajectory struct {
	Messages []json.RawMessage `json:"traj"`
}

// sessionOutput is the length of an agent's answers where nobody reads them: a
// call of a tool, or a short text.
const sessionOutput = 64

// sessions reads an array of trajectories. Each message of the assistant but one
// that opens a session becomes a request for it, with everything before it.
// Sessions have no times: so many users at a time have their sessions one after
// the other, and each request waits for the answer to the one before it and then
// for as long as the user or the tools take.
func (r *reader) sessions(in io.Reader) error {
	var recorded []trajectory
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		return fmt.Errorf(`not an array of objects with messages in "traj": %w; %s`, err, wanted)
	}
	t := r.trace
	t.closed = true
	lots := rand.New(rand.NewPCG(r.options.seed, 4))
	wait := func() time.Duration {
		return time.Duration(lots.ExpFloat64() * r.options.think * float64(time.Second))
	}
	last := make([]*request, max(1, r.options.users))
	if n := r.options.sessions; n > 0 && n < len(recorded) {
		recorded = recorded[:n]
	}
	for i, session := range recorded {
		user := i % len(last)
		for n, message := range session.Messages {
			var m struct {
				Role string `json:"role"`
			}
			if err := json.Unmarshal(message, &m); err != nil {
				r.bad(i+1, fmt.Errorf("message %d of this trajectory: %w", n, err))
				break
			}
			if m.Role != "assistant" || n == 0 {
				continue
			}
			body, err := chatOf(session.Messages[:n])
			if err != nil {
				return err
			}
			o, err := r.canon.outline("", body)
			if err != nil {
				r.bad(i+1, fmt.Errorf("request %d of this trajectory: %w", n, err))
				break
			}
			q := &request{outline: o, output: sessionOutput, at: wait()}
			if before := last[user]; before != nil {
				before.next, before.think, q.at = q, wait(), 0
			}
			last[user] = q
			t.requests = append(t.requests, q)
		}
	}
	if len(t.requests) == 0 {
		return fmt.Errorf(`%w: no message of an assistant under "traj"; %s`, errEmptyTrace, wanted)
	}
	t.nameSessions()
	t.cutText(t.bytesToAToken(), textBlock)
	t.derivePrefixes()
	return nil
}

// chatOf makes a chat request of the messages. Members that are null are left
// out, as the SDKs do.
func chatOf(messages []json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"messages":[`)
	for i, m := range messages {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(m)
	}
	b.WriteString(`]}`)
	return b.Bytes(), nil
}
