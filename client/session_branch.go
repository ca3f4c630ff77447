package client

import (
	"crypto/rand"
	"encoding/json"
	"slices"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/canon"
)

// Fork returns a session of the given id (a new one when it is empty) that
// begins as this one stands, results of an open batch included but without an
// answer that is under way. Both go on independently. It takes the place of
// another session of that id in the client.
//
// What the two have in common lies in the cache of one instance, so a fork is
// routed by the key of the session it comes from, and goes on from the same
// placement. It gets a home of its own when [Session.Compact] leaves it little
// in common with its parent.
func (s *Session) Fork(id string) *Session {
	if id == "" {
		id = rand.Text()
	}
	f := s.client.newSession(id)
	s.mu.Lock()
	f.key, f.placement, f.ratio = s.key, s.placement, s.ratio
	f.transcript = transcript{
		messages: slices.Clip(s.transcript.messages), // what either appends is not the other's
		calls:    s.transcript.calls,
		results:  slices.Clone(s.transcript.results),
	}
	f.sent = s.sent
	s.mu.Unlock()
	s.client.sessions.put(f)
	return f
}

// Compaction says what became of a transcript that was compacted, and of what
// the cache held of it.
type Compaction struct {
	// Kept and Removed count the messages of the old transcript, Added those
	// of the summary.
	Kept, Removed, Added int
	// KeptBytes are the bytes of prompt that the next request still shares
	// with the last one, and LostBytes those of the last one that it does not.
	// NewBytes have to be computed anew, beside what the request adds. All are
	// 0 when nothing had been sent.
	KeptBytes, LostBytes, NewBytes int
	// LostTokens estimates LostBytes in tokens; see [Rewrite].
	LostTokens int
}

// Compact makes the transcript shorter: the leading system and developer
// messages stay, then comes the summary (any messages, or none), then the last
// messages of the old transcript. Where the first of these would be the result
// of a tool call, those back to the call are kept too.
//
// The cache holds a prompt up to its first change only, so the engine has to
// compute everything after the leading messages again: compacting seldom and by
// much costs less than often and by little. It is an error, and nothing
// changes, while a call is under way or calls wait for results.
func (s *Session) Compact(last int, summary ...openai.ChatCompletionMessage) (Compaction, error) {
	added, err := rawMessages(summary)
	if err != nil {
		return Compaction{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		return Compaction{}, ErrSessionBusy
	}
	if err := s.transcript.complete(); err != nil {
		return Compaction{}, err
	}
	old := s.transcript.messages
	lead := leading(old)
	tail := min(max(lead, len(old)-max(last, 0)), len(old))
	for tail > lead && tail < len(old) && roleOf(old[tail]) == openai.ChatMessageRoleTool {
		tail--
	}
	var next transcript
	if err := next.add(slices.Concat(old[:lead], added, old[tail:])...); err != nil {
		return Compaction{}, err
	}
	c := Compaction{Kept: lead + len(old) - tail, Removed: tail - lead, Added: len(added)}
	if c.Removed == 0 && c.Added == 0 {
		return c, nil
	}
	s.measure(&c, next.messages)
	s.transcript, s.sent = next, nil // the change is meant: no warning
	if s.key != s.id {
		s.key, s.placement = s.id, ""
	}
	return c, nil
}

// measure works out what the cache loses when messages follow the last request.
func (s *Session) measure(c *Compaction, messages []json.RawMessage) {
	if s.sent == nil {
		return
	}
	head := s.sent.head
	if head == nil {
		head = json.RawMessage("{}")
	}
	before, errA := requestBody(head, s.sent.messages)
	after, errB := requestBody(head, messages)
	if errA != nil || errB != nil {
		return
	}
	d := s.client.canon.Diff(canon.Chat, before, after)
	c.KeptBytes, c.LostBytes, c.NewBytes = d.Shared, d.SizeA-d.Shared, d.SizeB-d.Shared
	c.LostTokens = s.tokens(c.LostBytes)
}

// leading counts the system and developer messages at the beginning.
func leading(messages []json.RawMessage) int {
	for i, m := range messages {
		if role := roleOf(m); role != openai.ChatMessageRoleSystem && role != openai.ChatMessageRoleDeveloper {
			return i
		}
	}
	return len(messages)
}
