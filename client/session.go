package client

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/sashabaranov/go-openai"
)

// Session is the append-only transcript of a conversation, for the loops of
// agents:
//
//	s := c.Session("order-4711")
//	err := s.Append(system, question)
//	for {
//		resp, err := s.Complete(ctx, openai.ChatCompletionRequest{Model: "m", Tools: tools})
//		calls := resp.Choices[0].Message.ToolCalls
//		if len(calls) == 0 {
//			break
//		}
//		for _, call := range calls { // or a goroutine for each
//			err := s.Result(call.ID, run(call.Function))
//		}
//	}
//
// A request says which model, tools and sampling it wants; the session adds the
// messages. What the engine has answered goes into the transcript as the engine
// spelled it (reasoning, arguments, members that go-openai does not know) and is
// sent so in every later request: each prompt is the one before and more, which
// is what a prefix cache needs. The requests prefer one instance, whatever
// becomes of the text.
//
// # What is not sent back
//
// Of an answer's message these members are left out, because no request has
// them: annotations and audio, which describe an answer; null members but
// content, and an empty list of tool_calls, which mean nothing; the index of
// a streamed call; and reasoning_content where reasoning is there too, since
// older versions of vLLM send the same text under both names.
//
// # Rewritten history
//
// A request that does not go on from the last one is served, but what the cache
// holds after the first difference is of no use to it. The client then logs a
// warning and calls SessionOptions.OnRewrite with the verdict of canon.Diff; a
// change of the tools is found as well as one of the messages.
//
// # At the same time
//
// A Session is safe for concurrent use. One call at a time can be under way: a
// second one, or an Append meanwhile, is [ErrSessionBusy]. Results of parallel
// tool calls may be added in any order; they stand in the order of the calls.
type Session struct {
	client *Client
	id     string

	mu         sync.Mutex
	key        string // what it is routed by: the id, or that of the session it was forked from
	placement  string // the token of the last answer, "" before it
	transcript transcript
	turn       *turn // the call that is under way
	sent       *sent // the last request that was answered
	ratio      float64
}

// bytesPerToken is assumed until an engine has counted a prompt of the session:
// about what English text and code take with the tokenizers in use.
const bytesPerToken = 4

// Session returns the session of that id, a new and empty one when the client
// has none. An empty id stands for a new one that nobody else has. Ids name
// conversations within one client: put the tenant's name into them where
// tenants choose them.
//
// The client keeps up to 1,024 sessions for an hour after their last use
// ([WithSessions]); one that it has forgotten goes on working for who holds it.
func (c *Client) Session(id string) *Session {
	if id == "" {
		id = rand.Text()
	}
	return c.sessions.get(id, func() *Session { return c.newSession(id) })
}

func (c *Client) newSession(id string) *Session {
	return &Session{client: c, id: id, key: id, ratio: 1. / bytesPerToken}
}

// ID returns the session's name.
func (s *Session) ID() string { return s.id }

// Append adds messages to the end: those of users, results of tools (role
// "tool"), and answers that did not come through this session, such as
// examples. It adds all of them or, with an error, none. Results are held back
// until the last one of their batch is there. A message that does not fit the
// open tool calls is a [*ToolResultError].
func (s *Session) Append(messages ...openai.ChatCompletionMessage) error {
	raw, err := rawMessages(messages)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		return ErrSessionBusy
	}
	return s.transcript.add(raw...)
}

// Result adds the result of a tool call of the last answer. It is Append of a
// message of the role "tool".
func (s *Session) Result(callID, content string) error {
	return s.Append(openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: callID, Content: content})
}

// Messages returns a copy of the transcript as go-openai understands it: with
// vLLM's reasoning as ReasoningContent, and without members that it does not
// know. Results are in it when their batch is complete.
func (s *Session) Messages() []openai.ChatCompletionMessage {
	s.mu.Lock()
	raw := s.transcript.messages
	s.mu.Unlock()
	messages := make([]openai.ChatCompletionMessage, len(raw))
	for i := range raw {
		messages[i] = decoded(raw[i])
	}
	return messages
}

// rawMessages spells messages as they are sent.
func rawMessages(messages []openai.ChatCompletionMessage) ([]json.RawMessage, error) {
	raw := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for k := range m.ToolCalls {
			m.ToolCalls[k].Index = nil // of a stream
		}
		var err error
		if raw[i], err = json.Marshal(m); err != nil {
			return nil, fmt.Errorf("prefixwise: session: message %d cannot be sent: %w", i, err)
		}
	}
	return raw, nil
}

// decoded is a message as go-openai understands it.
func decoded(raw json.RawMessage) openai.ChatCompletionMessage {
	var m openai.ChatCompletionMessage
	_ = json.Unmarshal(raw, &m) // what it cannot read stays empty
	if m.ReasoningContent == "" {
		var other struct {
			Reasoning string `json:"reasoning"`
		}
		_ = json.Unmarshal(raw, &other)
		m.ReasoningContent = other.Reasoning
	}
	return m
}
