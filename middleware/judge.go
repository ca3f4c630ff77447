package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/prefixwise/prefixwise/canon"
)

// A judge reads the events of one stream and says what each means. It knows
// the API's rule for a complete answer, and nothing of bytes or time.
type judge interface {
	// event judges the data of one event. io.ErrUnexpectedEOF means that the
	// data is a JSON text cut short: it goes on in the next line.
	event(data []byte) (verdict, error)
	// ended says why a stream that has ended is not a complete answer, or nil.
	ended() error
	usage() usage
}

type verdict struct {
	content bool  // the event has generated content, or is the end of an answer
	last    bool  // the event is the end mark
	swallow bool  // the event is ours, not the caller's
	failed  error // the event is a failure
	show    bool  // show the failure to the caller as the event that it is
}

// judgeOf returns the judge for an API's streams, nil where there is no rule.
// choices is how many are wanted, as far as that is known.
func judgeOf(api canon.API, swallowUsage bool, choices int, streamError func([]byte) error) judge {
	if streamError == nil {
		streamError = engineError
	}
	report := func(data []byte) error { return reported{streamError(data)} }
	switch api {
	case canon.Chat, canon.Completions:
		return &chatJudge{swallowUsage: swallowUsage, choices: choices, streamError: report, use: noUsage}
	case canon.Responses, canon.Messages:
		return &typedJudge{streamError: report, use: noUsage}
	}
	return nil
}

// choicesWanted returns the "n" of a chat request. A quote inside a string is
// escaped, so there is a member or a value of that name or there is none, and
// most requests need no parsing.
func choicesWanted(api canon.API, body []byte) int {
	if api != canon.Chat || !bytes.Contains(body, []byte(`"n"`)) {
		return 1
	}
	var r struct {
		N int `json:"n"`
	}
	_ = json.Unmarshal(body, &r) // what is wrong with it, the engine has said
	return max(r.N, 1)
}

// chatJudge knows the streams of chat completions and completions: an answer
// is complete when every choice has a finish_reason that is not "abort" and
// the end mark [DONE] has come (research on vLLM's serving code).
type chatJudge struct {
	swallowUsage bool
	choices      int // wanted, at least
	streamError  func([]byte) error
	finished     map[int]bool // by choice index: seen, and finished
	aborted      bool
	done         bool
	use          usage
	chunk        chatChunk // the one at hand, kept for its memory
}

type chatChunk struct {
	Object  string          `json:"object"`
	Error   json.RawMessage `json:"error"`
	Usage   *wireUsage      `json:"usage"`
	Choices []chatChoice    `json:"choices"`
}

type chatChoice struct {
	Index        int             `json:"index"`
	FinishReason *string         `json:"finish_reason"`
	Text         json.RawMessage `json:"text"`
	Delta        chatDelta       `json:"delta"`
}

type chatDelta struct {
	Content          json.RawMessage `json:"content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Refusal          json.RawMessage `json:"refusal"`
	ToolCalls        json.RawMessage `json:"tool_calls"`
	FunctionCall     json.RawMessage `json:"function_call"`
	Audio            json.RawMessage `json:"audio"`
}

func (j *chatJudge) event(data []byte) (v verdict, err error) {
	if string(data) == "[DONE]" {
		j.done = true
		return verdict{last: true, failed: j.verdict()}, nil
	}
	c := &j.chunk
	if !c.read(data) {
		*c = chatChunk{}
		if err := json.Unmarshal(data, c); err != nil {
			return verdict{}, cutShort(err)
		}
	}
	if present(c.Error) || c.Object == "error" {
		return verdict{failed: j.streamError(data)}, nil
	}
	if c.Usage != nil {
		j.use = c.Usage.usage()
		v.swallow = j.swallowUsage && len(c.Choices) == 0
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if j.finished == nil {
			j.finished = make(map[int]bool, 1)
		}
		finished := choice.FinishReason != nil && *choice.FinishReason != ""
		j.finished[choice.Index] = j.finished[choice.Index] || finished
		switch {
		case finished && *choice.FinishReason == "abort":
			j.aborted = true
		case finished:
			v.content = true
		}
		d := &choice.Delta
		v.content = v.content || present(choice.Text) || present(d.Content) || present(d.Reasoning) ||
			present(d.ReasoningContent) || present(d.Refusal) || present(d.ToolCalls) ||
			present(d.FunctionCall) || present(d.Audio)
	}
	if j.aborted && !v.content {
		v.failed, v.show = ErrAborted, true
	}
	return v, nil
}

// verdict says why the end mark would be a lie, or nil.
func (j *chatJudge) verdict() error {
	if j.aborted {
		return ErrAborted
	}
	if len(j.finished) == 0 {
		return ErrEmptyStream
	}
	for _, finished := range j.finished {
		if !finished {
			return ErrUnfinished
		}
	}
	if len(j.finished) < j.choices {
		return ErrUnfinished
	}
	return nil
}

func (j *chatJudge) ended() error {
	if j.aborted {
		return ErrAborted
	}
	if !j.done {
		return ErrTruncated
	}
	return nil
}

func (j *chatJudge) usage() usage { return j.use }

// typedJudge knows the streams whose events have a type: those of the
// Responses API and of Anthropic's messages. Both define an event for
// failures, which is shown to a caller that already has content.
type typedJudge struct {
	streamError func([]byte) error
	stopped     bool // a message has its stop_reason
	done        bool
	use         usage
}

type typedEvent struct {
	Type     string          `json:"type"`
	Error    json.RawMessage `json:"error"`
	Usage    *wireUsage      `json:"usage"` // of message_delta
	Delta    json.RawMessage `json:"delta"` // an object, or the text itself
	Response *struct {
		Usage *wireUsage      `json:"usage"`
		Error json.RawMessage `json:"error"`
	} `json:"response"`
	Message *struct {
		Usage *wireUsage `json:"usage"`
	} `json:"message"`
}

func (j *typedJudge) event(data []byte) (v verdict, err error) {
	if string(data) == "[DONE]" { // not in these APIs, but harmless
		return verdict{}, nil
	}
	var e typedEvent
	if !e.read(data) {
		e = typedEvent{}
		// The message of an error event is a string, so a wrong type is no fault.
		if err := json.Unmarshal(data, &e); err != nil && e.Type == "" {
			return verdict{}, cutShort(err)
		}
	}
	j.note(e.Usage)
	if e.Message != nil {
		j.note(e.Message.Usage)
	}
	if e.Response != nil {
		j.note(e.Response.Usage)
	}
	switch e.Type {
	case "message_delta":
		j.stopped = j.stopped || stopReasonIn(e.Delta)
	case "message_stop":
		if !j.stopped {
			return verdict{failed: ErrUnfinished, last: true}, nil
		}
		fallthrough
	case "response.completed", "response.incomplete":
		j.done = true
		return verdict{content: true, last: true}, nil
	case "error", "response.failed":
		j.done = true
		if e.Response != nil && present(e.Response.Error) {
			data, _ = json.Marshal(map[string]json.RawMessage{"error": e.Response.Error})
		}
		return verdict{failed: j.streamError(data), show: true}, nil
	}
	v.content = e.Type == "content_block_delta" || bytes.HasSuffix([]byte(e.Type), []byte(".delta"))
	return v, nil
}

// stopReasonIn tells whether the delta that ends a message says why it ended.
// That of a generation which vLLM has aborted does not: Anthropic's API has no
// word for it.
func stopReasonIn(delta []byte) bool {
	var end struct {
		StopReason json.RawMessage `json:"stop_reason"`
	}
	return json.Unmarshal(delta, &end) == nil && present(end.StopReason)
}

// givenUp tells whether a whole message lacks it.
func givenUp(body []byte) bool {
	var message struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(body, &message) == nil && message.Type == "message" && !stopReasonIn(body)
}

// note merges a partial usage: Anthropic's comes in two events.
func (j *typedJudge) note(w *wireUsage) {
	if w == nil {
		return
	}
	u := w.usage()
	j.use.prompt = max(j.use.prompt, u.prompt)
	j.use.cached = max(j.use.cached, u.cached)
	j.use.completion = max(j.use.completion, u.completion)
}

func (j *typedJudge) ended() error {
	if !j.done {
		return ErrTruncated
	}
	return nil
}

func (j *typedJudge) usage() usage { return j.use }

// present reports whether a member has a value with something in it.
func present(v json.RawMessage) bool {
	switch string(v) {
	case "", "null", `""`, "[]", "{}":
		return false
	}
	return true
}

// cutShort returns io.ErrUnexpectedEOF for a JSON text that may go on in the
// next line, and nil for any other fault: what we cannot read is the caller's
// to judge.
func cutShort(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Error() == "unexpected end of JSON input" {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// engineError reads vLLM's error object; "error" may be a string too.
func engineError(data []byte) error {
	var frame struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    any             `json:"code"`
	}
	_ = json.Unmarshal(data, &frame) // what cannot be read stays empty
	e := &EngineError{Message: frame.Message, Type: frame.Type}
	code := frame.Code
	if present(frame.Error) {
		var inner struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Code    any    `json:"code"`
		}
		if json.Unmarshal(frame.Error, &inner) == nil {
			e.Message, e.Type, code = inner.Message, inner.Type, inner.Code
		} else {
			_ = json.Unmarshal(frame.Error, &e.Message)
		}
	}
	if n, ok := code.(float64); ok {
		e.Code = int(n)
	}
	if len(e.Message) > 1<<10 {
		e.Message = e.Message[:1<<10]
	}
	return e
}
