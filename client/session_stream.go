package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/sashabaranov/go-openai"
)

// SessionStream is a streamed answer of a session. It is to be read to its end,
// or closed, before the session can be used again. It is for one goroutine.
type SessionStream struct {
	session *Session
	turn    *turn
	stream  *openai.ChatCompletionStream
	answer  delta
	message openai.ChatCompletionMessage
	unwatch func() bool
	err     error // what Recv has ended with
}

// Stream is Complete with a streamed answer. It is appended when Recv returns
// io.EOF. When the stream breaks off, is closed before, or its context ends,
// the transcript is as it was, and the error is [ErrNotAppended] too.
func (s *Session) Stream(ctx context.Context, req openai.ChatCompletionRequest) (*SessionStream, error) {
	t, err := s.begin(ctx, req)
	if err != nil {
		return nil, err
	}
	begun := false
	defer func() {
		if !begun {
			s.abandon(t)
		}
	}()
	s.client.rewritten(t.rewrite)
	req.Messages = nil
	stream, err := s.client.CreateChatCompletionStream(t.ctx, req)
	if err != nil {
		return nil, err
	}
	begun = true
	// A stream that its reader has forgotten does not hold the session for ever.
	unwatch := context.AfterFunc(ctx, func() { s.abandon(t) })
	return &SessionStream{session: s, turn: t, stream: stream, unwatch: unwatch}, nil
}

// Recv returns the next chunk; io.EOF after the last one, when the answer is in
// the transcript. Errors are those of go-openai's stream, under
// [ErrNotAppended]. After an error it returns that again.
func (st *SessionStream) Recv() (openai.ChatCompletionStreamResponse, error) {
	var chunk openai.ChatCompletionStreamResponse
	if st.err != nil {
		return chunk, st.err
	}
	raw, err := st.stream.RecvRaw()
	switch {
	case errors.Is(err, io.EOF):
		err = st.finish()
	case err == nil:
		if err = json.Unmarshal(raw, &chunk); err == nil {
			err = st.add(raw)
		}
	}
	if err == nil {
		return chunk, nil
	}
	if err != io.EOF && !errors.Is(err, ErrNotAppended) {
		err = notAppended("the stream broke off: %w", err)
	}
	st.end(err)
	return openai.ChatCompletionStreamResponse{}, err
}

// add adds a chunk to the message.
func (st *SessionStream) add(raw []byte) error {
	var chunk struct {
		Choices []struct {
			Index int             `json:"index"`
			Delta json.RawMessage `json:"delta"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(raw, &chunk); err != nil {
		return err
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 || len(choice.Delta) == 0 || isNull(choice.Delta) {
			continue
		}
		if err := st.answer.add(choice.Delta); err != nil {
			return err
		}
	}
	return nil
}

// finish appends the message, and returns io.EOF when it is in the transcript.
func (st *SessionStream) finish() error {
	message, err := st.answer.message()
	if err == nil {
		err = st.session.commit(st.turn, message, st.stream.Header())
	}
	if err != nil {
		return err
	}
	st.message = decoded(message)
	return io.EOF
}

func (st *SessionStream) end(err error) {
	st.err = err
	st.unwatch()
	st.session.abandon(st.turn)
}

// Message returns the whole answer once Recv has returned io.EOF.
func (st *SessionStream) Message() openai.ChatCompletionMessage { return st.message }

// Header returns the header of the response.
func (st *SessionStream) Header() http.Header { return st.stream.Header() }

// Close ends the stream. Before Recv has returned io.EOF, the engine stops, the
// transcript is as it was, and the error is [ErrNotAppended].
func (st *SessionStream) Close() error {
	err := st.stream.Close()
	if st.err == nil {
		st.end(notAppended("the stream was closed before its end"))
		return st.err
	}
	return err
}
