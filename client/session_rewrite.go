package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/canon"
)

// Rewrite says that a request of a session does not go on from the one before,
// and what that costs.
type Rewrite struct {
	// Session is the session's id.
	Session string
	// Verdict is that of canon.Diff on the two requests: the class of the
	// change, the message, and excerpts of both texts.
	Verdict canon.Divergence
	// LostBytes is how many bytes of prompt the two could have shared beyond
	// those that they do, and LostTokens an estimate of the same in tokens, by
	// what engines have counted for this session; four bytes a token before
	// the first count.
	LostBytes, LostTokens int
}

// compare returns what a request loses that is sent after the last one, nil if
// nothing.
func (s *Session) compare(next sent) *Rewrite {
	last := s.sent
	if last == nil {
		return nil
	}
	head := last.head
	if head == nil {
		head = next.head
	}
	if bytes.Equal(head, next.head) && extends(next.messages, last.messages) {
		return nil
	}
	a, errA := requestBody(head, last.messages)
	b, errB := requestBody(next.head, next.messages)
	if errA != nil || errB != nil {
		return nil // the call itself will say so
	}
	d := s.client.canon.Diff(canon.Chat, a, b)
	lost := min(d.SizeA, d.SizeB) - d.Shared
	if lost <= 0 || d.Change <= canon.Appended || d.Change == canon.TailChange {
		return nil
	}
	return &Rewrite{Session: s.id, Verdict: d, LostBytes: lost, LostTokens: s.tokens(lost)}
}

// tokens estimates how many tokens so many bytes of this session are.
func (s *Session) tokens(size int) int { return int(s.ratio*float64(size) + .5) }

func extends(next, last []json.RawMessage) bool {
	return len(next) >= len(last) && slices.EqualFunc(next[:len(last)], last, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

func requestBody(head json.RawMessage, messages []json.RawMessage) ([]byte, error) {
	return canon.Merge(head, map[string]json.RawMessage{"messages": messageList(messages)})
}

// rewritten tells of a request that does not go on from the one before, if it is
// one (not nil). Texts and ids are for the callback only.
func (c *Client) rewritten(r *Rewrite) {
	if r == nil {
		return
	}
	c.logger.LogAttrs(context.Background(), slog.LevelWarn, "a session's request does not go on from the one before",
		slog.String("session", fmt.Sprintf("%016x", xxhash.Sum64String(r.Session))),
		slog.String("change", r.Verdict.Change.String()),
		slog.Int("message", r.Verdict.Message),
		slog.Int("shared_bytes", r.Verdict.Shared),
		slog.Int("lost_bytes", r.LostBytes),
		slog.Int("lost_tokens_estimate", r.LostTokens))
	if c.sessions.options.OnRewrite != nil {
		c.sessions.options.OnRewrite(*r)
	}
}

// Use makes messages the transcript, for frameworks that keep the conversation
// themselves. Usually they go on from it, and the new ones are appended.
//
// An answer that was given through this session is recognised though go-openai
// has lost part of it, though its reasoning is missing, and though its arguments
// were decoded and encoded again; the transcript keeps it as the engine spelled
// it. Anything else that differs is taken as it is given; the next request then
// tells what that costs (see [Session] about rewritten history).
func (s *Session) Use(messages []openai.ChatCompletionMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		return ErrSessionBusy
	}
	next, err := s.using(messages)
	if err == nil {
		s.transcript = next
	}
	return err
}

// using returns the transcript that messages make, and leaves the session's as
// it is.
func (s *Session) using(messages []openai.ChatCompletionMessage) (transcript, error) {
	raw, err := rawMessages(messages)
	if err != nil {
		return transcript{}, err
	}
	old := s.transcript.messages
	same := 0
	for same < min(len(raw), len(old)) && means(old[same], raw[same], messages[same]) {
		raw[same] = old[same]
		same++
	}
	var next transcript
	if same == len(old) { // as usual: they go on from it
		next = transcript{messages: slices.Clip(old), calls: s.transcript.calls, results: make([]json.RawMessage, len(s.transcript.calls))}
		raw = raw[same:]
	} else {
		restore(raw[same:], messages[same:], old)
	}
	err = next.add(raw...)
	return next, err
}

// restore spells those of the messages that are answers in old as they are there:
// with a summary before them, for example, they stand at other places.
func restore(raw []json.RawMessage, messages []openai.ChatCompletionMessage, old []json.RawMessage) {
	answers := map[string]json.RawMessage{} // by what they mean
	for _, o := range old {
		if roleOf(o) == openai.ChatMessageRoleAssistant {
			answers[meaning(decoded(o))] = o
		}
	}
	for i, m := range messages {
		if m.Role != openai.ChatMessageRoleAssistant {
			continue
		}
		if o, ok := answers[meaning(m)]; ok && means(o, raw[i], m) {
			raw[i] = o
		}
	}
}

// means reports whether a message of the transcript is what the caller gives as
// m, which is spelled raw.
func means(old, raw json.RawMessage, m openai.ChatCompletionMessage) bool {
	if bytes.Equal(old, raw) {
		return true
	}
	o := decoded(old)
	if m.ReasoningContent != "" && m.ReasoningContent != o.ReasoningContent {
		return false
	}
	return meaning(o) == meaning(m)
}

// meaning spells a message without what frameworks lose on the way: reasoning,
// the spelling of arguments, the shape of a single text.
func meaning(m openai.ChatCompletionMessage) string {
	m.ReasoningContent = ""
	if p := m.MultiContent; len(p) == 1 && p[0].Type == openai.ChatMessagePartTypeText && m.Content == "" {
		m.Content, m.MultiContent = p[0].Text, nil
	}
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		call := &m.ToolCalls[i]
		call.Index = nil
		var arguments any
		if json.Unmarshal([]byte(call.Function.Arguments), &arguments) == nil {
			if again, err := json.Marshal(arguments); err == nil {
				call.Function.Arguments = string(again)
			}
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	return string(text)
}
