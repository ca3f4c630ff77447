package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sashabaranov/go-openai"
)

// answerIn returns the message in the body of a plain answer, as it goes into
// the transcript.
func answerIn(body []byte) (json.RawMessage, error) {
	var answer struct {
		Choices []struct {
			Message json.RawMessage `json:"message"`
		} `json:"choices"`
	}
	// The body may be followed by what go-openai has not read.
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&answer); err != nil {
		return nil, notAppended("%w", err)
	}
	if len(answer.Choices) == 0 {
		return nil, notAppended("the engine gave no choice")
	}
	return sendable(answer.Choices[0].Message)
}

func notAppended(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNotAppended, fmt.Errorf(format, args...))
}

// member is one of an object, its value as it was spelled.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf returns the members of a JSON object in order.
func membersOf(object json.RawMessage) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var all []member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: name.(string)} // the decoder takes nothing else there
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// appendMember appends one more member to an object that is not closed yet.
func appendMember(dst []byte, name string, value []byte) []byte {
	if len(dst) > 1 {
		dst = append(dst, ',')
	}
	quoted, _ := json.Marshal(name) // a string always can be
	dst = append(append(dst, quoted...), ':')
	return append(dst, value...)
}

// sendable returns a message of an engine without the members that requests do
// not have (they are listed at Session), everything else as it is.
//
// vLLM parses the arguments of every call in the history (_postprocess_messages
// in its chat_utils.py; empty ones are {}), so arguments that are no JSON, as
// of an answer that ran into its token limit, would make it refuse every later
// request. Such an answer is an error.
func sendable(message json.RawMessage) (json.RawMessage, error) {
	members, err := membersOf(message)
	if err != nil {
		return nil, notAppended("its message cannot be read: %w", err)
	}
	reasoning := false
	for _, m := range members {
		reasoning = reasoning || m.name == "reasoning" && !isNull(m.value)
	}
	out := []byte{'{'}
	for _, m := range members {
		switch {
		case m.name == "annotations", m.name == "audio":
		case m.name == "reasoning_content" && reasoning:
		case m.name == "content":
			out = appendMember(out, m.name, m.value)
		case isNull(m.value):
		case m.name == "tool_calls":
			if err := checkCalls(m.value); err != nil {
				return nil, err
			}
			if decoded := []json.RawMessage{}; json.Unmarshal(m.value, &decoded) == nil && len(decoded) == 0 {
				continue
			}
			fallthrough
		default:
			out = appendMember(out, m.name, m.value)
		}
	}
	return append(out, '}'), nil
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

func checkCalls(value json.RawMessage) error {
	var calls []openai.ToolCall
	if json.Unmarshal(value, &calls) != nil {
		return nil // not go-openai's form; the engine knows it
	}
	for _, call := range calls {
		if a := call.Function.Arguments; a != "" && !json.Valid([]byte(a)) {
			return notAppended("the arguments of its tool call %.100q are not JSON, and vLLM refuses a history with such; ask again, with more tokens if it was cut short", call.ID)
		}
	}
	return nil
}
