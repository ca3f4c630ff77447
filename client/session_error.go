package client

import (
	"errors"
	"fmt"
	"strings"
)

// Conditions of a session that a caller may want to tell apart with errors.Is.
var (
	// ErrSessionBusy is a call, or a change of the transcript, while another
	// call of the session is under way.
	ErrSessionBusy = errors.New("prefixwise: session: another call is under way; wait for its answer, read its stream to the end or close it, or use a Fork")
	// ErrNotAppended is an answer that is not in the transcript, which is as it
	// was before the call: the stream broke off or was closed early, or no
	// engine could read the answer in a later request.
	ErrNotAppended = errors.New("prefixwise: session: the answer is not in the transcript")
	// ErrNoMessages is a call of a session without messages.
	ErrNoMessages = errors.New("prefixwise: session: there are no messages yet; Append some first")
	// ErrSeveralChoices is a request for more than one choice.
	ErrSeveralChoices = errors.New("prefixwise: session: N is above 1, but a transcript goes on from one answer; use a Fork for each")
)

// ToolResultProblem says what is wrong with the results of a batch of tool
// calls.
type ToolResultProblem string

// The problems of a batch.
const (
	ToolResultMissing ToolResultProblem = "missing" // calls without a result, when something other than a result was to follow
	ToolResultDoubled ToolResultProblem = "doubled" // a second result for a call
	ToolResultUnknown ToolResultProblem = "unknown" // a result for a call that the last answer did not make
)

// ToolResultError says that results do not fit the tool calls of the last
// answer. The transcript is unchanged.
type ToolResultError struct {
	Problem ToolResultProblem
	// IDs are the ids of the calls that are at fault, in order.
	IDs []string
	// Open are the ids of the calls that still wait for a result.
	Open []string
}

func (e *ToolResultError) Error() string {
	const prefix = "prefixwise: session: "
	open := "no call waits for a result"
	if len(e.Open) > 0 {
		open = "the calls that wait for one are " + quoted(e.Open)
	}
	switch e.Problem {
	case ToolResultMissing:
		return prefix + fmt.Sprintf("no result for the tool calls %s; add one for each, even if it says that the call was given up", quoted(e.IDs))
	case ToolResultDoubled:
		return prefix + fmt.Sprintf("the tool call %s has a result already; %s", quoted(e.IDs), open)
	default:
		return prefix + fmt.Sprintf("a result for %s, which the last answer did not call; %s", quoted(e.IDs), open)
	}
}

func quoted(ids []string) string {
	q := make([]string, len(ids))
	for i, id := range ids {
		q[i] = fmt.Sprintf("%.100q", id)
	}
	return strings.Join(q, ", ")
}
