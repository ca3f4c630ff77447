package middleware

import (
	"errors"
	"fmt"
	"strings"
)

// Phase says how far an attempt had come when it failed.
type Phase string

const (
	// PhasePrepare is the work on the request before an endpoint is picked.
	PhasePrepare Phase = "prepare"
	// PhasePick is the choice of an endpoint: nothing was sent.
	PhasePick Phase = "pick"
	// PhaseConnect is dialling and the TLS handshake: nothing was sent.
	PhaseConnect Phase = "connect"
	// PhaseFirstByte lasts from sending the request to the first content of
	// the response: nothing was delivered to the caller.
	PhaseFirstByte Phase = "first byte"
	// PhaseBody is the rest of the response: part of it may have been
	// delivered.
	PhaseBody Phase = "body"
)

// Error is a failure that Prefixwise found, as opposed to an error response
// of an engine, which reaches the caller as the response that it is.
type Error struct {
	// Phase says how far the attempt had come.
	Phase Phase
	// Endpoint is the identity of the endpoint, empty when none was picked.
	Endpoint string
	// Attempts is how many attempts the call had made, this one included.
	Attempts int
	// Delivered is how many bytes of the response body had been handed to
	// the caller. When it is zero, nothing was.
	Delivered int64
	// Err is the cause: one of this package's sentinels, an *EngineError, or
	// the error of the network or of another package.
	Err error

	// retryable is whether another attempt may help and cannot do harm, lost
	// whether the connection broke while the engine worked.
	retryable, lost bool
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("prefixwise: ")
	if e.Endpoint != "" {
		b.WriteString(e.Endpoint)
		b.WriteString(": ")
	}
	b.WriteString(string(e.Phase))
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (attempt %d)", e.Attempts)
	}
	if e.Delivered > 0 {
		fmt.Fprintf(&b, " after %d bytes", e.Delivered)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a time limit ended the attempt; net/http and its
// callers look for this method.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// Causes that a caller may want to tell apart with errors.Is.
var (
	// ErrTruncated is a stream that ended without its end mark ([DONE]).
	ErrTruncated = errors.New("the stream ended before its end mark")
	// ErrUnfinished is a stream whose end mark came before every choice had
	// a finish_reason, or an answer of the Messages API without a stop_reason,
	// as vLLM gives one that it has aborted.
	ErrUnfinished = errors.New("the answer ended unfinished, without a reason")
	// ErrEmptyStream is a stream that ended without any choice; some vLLM
	// versions answer an early engine error so.
	ErrEmptyStream = errors.New("the stream ended without any choice")
	// ErrNotStreamed is a plain answer to a request for a stream. An SDK would
	// take it for a stream without content.
	ErrNotStreamed = errors.New("the endpoint, or something in front of it, answered a request for a stream with a plain answer; send the request without stream, or have streams let through")
	// ErrStreamed is a stream in answer to a plain request. An SDK would complain
	// about its JSON.
	ErrStreamed = errors.New("the endpoint, or something in front of it, answered a plain request with a stream; send the request with stream, or have plain answers let through")
	// ErrAborted is a generation that the engine gave up (finish_reason
	// "abort"), as a vLLM does that is shutting down.
	ErrAborted = errors.New("the engine aborted the generation; it may be shutting down")
	// ErrRedirect is a 3xx answer. Redirects are never followed: the API key
	// belongs to the fleet's endpoints only.
	ErrRedirect = errors.New("the endpoint answered with a redirect, which is never followed; configure the address that it points to")
	// ErrEndpointLost is an endpoint that has refused connections for a while
	// and of whose answer nothing has arrived.
	ErrEndpointLost = errors.New("the endpoint refuses connections and has sent nothing")
	// ErrLineTooLong is an event of a stream that is longer than the limit, or
	// a stream of which as much comes before its first content.
	ErrLineTooLong = errors.New("a line of the stream, or what comes before its first content, is longer than the limit of 16 MiB")
	// ErrResponseTooLarge is a plain response that is larger than the limit.
	ErrResponseTooLarge = errors.New("the response is larger than the limit")

	// The limits have the names of client.Timeouts, which sets them.

	// ErrConnectTimeout is a connection that was not made in time.
	ErrConnectTimeout error = timeout("no connection within the connect timeout (Timeouts.Connect)")
	// ErrFirstByteTimeout is a stream whose first content did not come in time.
	ErrFirstByteTimeout error = timeout("no content within the first-byte timeout (Timeouts.FirstByte)")
	// ErrIdleTimeout is a response that stopped coming.
	ErrIdleTimeout error = timeout("no byte within the idle timeout (Timeouts.Idle)")
	// ErrTotalTimeout is a call that took longer than it may in all.
	ErrTotalTimeout error = timeout("no complete answer within the total timeout (Timeouts.Total)")
)

type timeout string

func (t timeout) Error() string { return string(t) }
func (timeout) Timeout() bool   { return true }

// errClosed is what ends an attempt whose body the caller has closed.
var errClosed = errors.New("the response body is closed")

// A statusError stands for an error response where an error is wanted.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// A reported error is what an engine said in a stream. It may echo the prompt,
// so it is for the caller and not for logs.
type reported struct{ error }

func (e reported) Unwrap() error { return e.error }

// EngineError is an error that an engine reported inside a stream, after it
// had answered with status 200.
type EngineError struct {
	// Message is the engine's text, cut to 1 KiB since engines echo input.
	Message string
	// Type is the engine's name for the kind of error.
	Type string
	// Code is the HTTP status that the engine would have answered with, 0 if
	// it gave none.
	Code int
}

func (e *EngineError) Error() string {
	if e.Code != 0 {
		return fmt.Sprintf("the engine reported error %d (%s) in the stream: %s", e.Code, e.Type, e.Message)
	}
	return fmt.Sprintf("the engine reported an error (%s) in the stream: %s", e.Type, e.Message)
}
