package middleware

import (
	"context"
	"errors"
	"strconv"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
)

// An Outcome is how a call ended.
type Outcome string

const (
	// OutcomeOK is a complete answer.
	OutcomeOK Outcome = "ok"
	// OutcomeRefused is an error response of an engine.
	OutcomeRefused Outcome = "refused"
	// OutcomeFailed is a call without an answer, or with only part of one.
	OutcomeFailed Outcome = "failed"
	// OutcomeCanceled is a call that the caller gave up.
	OutcomeCanceled Outcome = "canceled"
)

// Outcome tells how the call ended.
func (d Done) Outcome() Outcome {
	switch {
	case errors.Is(d.Err, context.Canceled):
		return OutcomeCanceled
	case d.Err != nil:
		return OutcomeFailed
	case d.Status >= 400:
		return OutcomeRefused
	}
	return OutcomeOK
}

// Cause names why the call did not get a complete answer, in a word that is
// one of few, for metrics: an HTTP status such as "503", or a name such as
// "connect_timeout". It is empty for an answer.
func (d Done) Cause() string { return cause(d.Status, d.Err) }

// Cause names why the attempt failed, as [Done.Cause] does.
func (r Retrying) Cause() string { return cause(r.Status, r.Err) }

// causes are looked through from the first to the last: an error can be
// several of them, and the more special ones come first.
var causes = []struct {
	err  error
	name string
}{
	{context.Canceled, "canceled"},
	{ErrConnectTimeout, "connect_timeout"},
	{ErrFirstByteTimeout, "first_byte_timeout"},
	{ErrIdleTimeout, "idle_timeout"},
	{ErrTotalTimeout, "total_timeout"},
	{context.DeadlineExceeded, "deadline_exceeded"},
	{ErrEndpointLost, "endpoint_lost"},
	{ErrAborted, "aborted"},
	{ErrEmptyStream, "empty_stream"},
	{ErrNotStreamed, "not_streamed"},
	{ErrStreamed, "streamed"},
	{ErrUnfinished, "unfinished"},
	{ErrTruncated, "truncated"},
	{ErrRedirect, "redirect"},
	{ErrLineTooLong, "line_too_long"},
	{ErrResponseTooLarge, "response_too_large"},
	{affinity.ErrOverLimit, "over_limit"},
	{affinity.ErrModelNotServed, "model_not_served"},
	{affinity.ErrStickyGone, "state_lost"},
	{affinity.ErrRoutingID, "bad_request"},
	{affinity.ErrNoEndpoints, "no_endpoints"},
}

func cause(status int, err error) string {
	if err == nil {
		if status >= 400 {
			return strconv.Itoa(status)
		}
		return ""
	}
	if errors.As(err, new(reported)) || errors.As(err, new(*EngineError)) {
		return "engine_error"
	}
	if errors.As(err, new(requestFault)) {
		return "bad_request"
	}
	if errors.As(err, new(*canon.SizeError)) {
		return "request_too_large"
	}
	if errors.As(err, new(*UnknownResponseError)) {
		return "state_lost"
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	var e *Error
	if !errors.As(err, &e) {
		return "other"
	}
	switch e.Phase {
	case PhasePrepare:
		return "bad_request"
	case PhasePick:
		return "no_endpoints"
	case PhaseConnect:
		return "connect"
	}
	return "connection_lost"
}
