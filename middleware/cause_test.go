package middleware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
)

func TestOutcomeAndCause(t *testing.T) {
	in := func(phase Phase, err error) error { return &Error{Phase: phase, Endpoint: "a", Attempts: 2, Err: err} }
	for _, test := range []struct {
		status  int
		err     error
		outcome Outcome
		cause   string
	}{
		{200, nil, OutcomeOK, ""},
		{0, nil, OutcomeOK, ""},
		{503, nil, OutcomeRefused, "503"},
		{404, nil, OutcomeRefused, "404"},
		{200, in(PhaseBody, context.Canceled), OutcomeCanceled, "canceled"},
		{0, in(PhasePick, context.DeadlineExceeded), OutcomeFailed, "deadline_exceeded"},
		{0, in(PhaseConnect, errors.New("connection refused")), OutcomeFailed, "connect"},
		{0, in(PhaseConnect, errors.Join(ErrConnectTimeout, io.EOF)), OutcomeFailed, "connect_timeout"},
		{0, in(PhaseFirstByte, ErrFirstByteTimeout), OutcomeFailed, "first_byte_timeout"},
		{200, in(PhaseBody, ErrIdleTimeout), OutcomeFailed, "idle_timeout"},
		{0, in(PhasePick, ErrTotalTimeout), OutcomeFailed, "total_timeout"},
		{200, in(PhaseBody, ErrTruncated), OutcomeFailed, "truncated"},
		{200, in(PhaseFirstByte, ErrNotStreamed), OutcomeFailed, "not_streamed"},
		{200, in(PhaseFirstByte, ErrStreamed), OutcomeFailed, "streamed"},
		{0, in(PhasePrepare, requestFault{io.EOF}), OutcomeFailed, "bad_request"},
		{200, in(PhaseBody, io.ErrUnexpectedEOF), OutcomeFailed, "connection_lost"},
		{200, in(PhaseBody, reported{errors.New("text of the prompt")}), OutcomeFailed, "engine_error"},
		{200, in(PhaseBody, &EngineError{Message: "text of the prompt"}), OutcomeFailed, "engine_error"},
		{0, in(PhasePrepare, &canon.SizeError{Size: 2, Max: 1}), OutcomeFailed, "request_too_large"},
		{0, in(PhasePrepare, errors.New("extra body")), OutcomeFailed, "bad_request"},
		{0, in(PhasePick, &affinity.ModelError{Model: "secret"}), OutcomeFailed, "model_not_served"},
		{0, in(PhasePick, fmt.Errorf("%w (after a: %w)", affinity.ErrOverLimit, io.EOF)), OutcomeFailed, "over_limit"},
		{0, in(PhasePick, &affinity.StickyError{}), OutcomeFailed, "state_lost"},
		{0, in(PhasePick, &UnknownResponseError{ID: "r"}), OutcomeFailed, "state_lost"},
		{0, in(PhasePick, errors.New("no such host")), OutcomeFailed, "no_endpoints"},
		{0, io.EOF, OutcomeFailed, "other"},
	} {
		done := Done{Status: test.status, Err: test.err}
		require.Equal(t, test.outcome, done.Outcome(), "%d %v", test.status, test.err)
		require.Equal(t, test.cause, done.Cause(), "%d %v", test.status, test.err)
		require.Equal(t, test.cause, Retrying{Status: test.status, Err: test.err}.Cause(), "%d %v", test.status, test.err)
	}
}
