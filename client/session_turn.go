package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/middleware"
)

// turn is a call of a session that is under way.
type turn struct {
	ctx        context.Context
	transcript transcript // what is sent, and the session's when it was answered
	sent       sent
	size       int          // bytes of the request
	tokens     atomic.Int64 // what the engine counted in its prompt, 0 unless it did
	rewrite    *Rewrite     // what the request loses, nil for one that goes on from the last
	body       bytes.Buffer // of a plain answer, as it was received
}

// sent is a request of which the engine has the prompt: what is in its body
// beside the messages, and these. The head of a restored session is nil.
type sent struct {
	head     json.RawMessage
	messages []json.RawMessage
}

type turnKey struct{}

// Complete asks for the next message and appends it. It takes and returns what
// CreateChatCompletion does, errors included; the messages are the session's.
//
// A request that has Messages is one of a framework that sends the whole
// conversation each time: the messages are taken as [Session.Use] takes them.
//
// After an error the transcript is as it was. [ErrNotAppended] is an answer
// that came, and is returned, but that no later request could have in it.
func (s *Session) Complete(ctx context.Context, req openai.ChatCompletionRequest) (openai.ChatCompletionResponse, error) {
	t, err := s.begin(ctx, req)
	if err != nil {
		return openai.ChatCompletionResponse{}, err
	}
	defer s.abandon(t) // in vain when it was committed
	s.client.rewritten(t.rewrite)
	req.Messages = nil
	resp, err := s.client.CreateChatCompletion(t.ctx, req)
	if err != nil {
		return resp, err
	}
	answer, err := answerIn(t.body.Bytes())
	if err == nil {
		err = s.commit(t, answer, resp.Header())
	}
	return resp, err
}

// begin makes the session's next request. No other can be made until the turn
// is committed or abandoned.
func (s *Session) begin(ctx context.Context, req openai.ChatCompletionRequest) (*turn, error) {
	if req.N > 1 {
		return nil, ErrSeveralChoices
	}
	s.client.sessions.touch(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		return nil, ErrSessionBusy
	}
	next := s.transcript
	if len(req.Messages) > 0 {
		var err error
		if next, err = s.using(req.Messages); err != nil {
			return nil, err
		}
		req.Messages = nil
	}
	if err := next.complete(); err != nil {
		return nil, err
	}
	if len(next.messages) == 0 {
		return nil, ErrNoMessages
	}
	head, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("prefixwise: session: the request cannot be sent: %w", err)
	}
	messages := messageList(next.messages)
	t := &turn{transcript: next, sent: sent{head: head, messages: next.messages}, size: len(head) + len(messages)}
	t.rewrite = s.compare(t.sent)
	t.ctx = middleware.WithHints(ctx, middleware.Hints{
		Session: s.key, Placement: s.placement, ExtraBody: map[string]any{"messages": messages},
	})
	t.ctx = WithTrace(t.ctx, &Trace{Done: func(d middleware.Done) { t.tokens.Store(int64(d.PromptTokens)) }})
	t.ctx = context.WithValue(t.ctx, turnKey{}, t)
	s.turn = t
	return t, nil
}

// commit appends the answer of a turn.
func (s *Session) commit(t *turn, answer json.RawMessage, header http.Header) error {
	s.client.sessions.touch(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != t {
		return notAppended("the call was ended before its answer was complete")
	}
	s.turn = nil
	if err := t.transcript.add(answer); err != nil {
		return notAppended("%w", err)
	}
	s.transcript = t.transcript
	last := t.sent // a pointer into t would keep all of it
	s.sent, s.placement = &last, header.Get(middleware.HeaderPlacement)
	if tokens := t.tokens.Load(); tokens > 0 {
		s.ratio = float64(tokens) / float64(t.size)
	}
	return nil
}

// abandon ends a turn that brought nothing.
func (s *Session) abandon(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == t {
		s.turn = nil
	}
}

// keepAnswer notes the body of a session's plain answer while it is read:
// go-openai decodes what it knows and drops the rest.
func keepAnswer(ctx context.Context, resp *http.Response) {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok || resp.StatusCode != http.StatusOK || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(resp.Body, &t.body), resp.Body}
}
