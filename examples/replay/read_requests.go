package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Logs of requests come in many shapes. The request is the line itself or what
// stands under one of bodyNames, as an object or as a text with JSON in it; when
// it was sent stands under one of timeNames, beside it or in it; what it came to
// stands under "usage", perhaps within the response. OpenAI's batch files,
// LiteLLM's logs and those of most proxies are of this kind.
var (
	bodyNames     = []string{"body", "request", "request_body", "requestBody", "json_body", "payload"}
	timeNames     = []string{"timestamp", "time", "ts", "@timestamp", "start_time", "startTime", "created_at", "createdAt", "created"}
	pathNames     = []string{"url", "path", "endpoint", "route", "request_path"}
	sessionNames  = []string{"session", "session_id", "conversation_id"}
	responseNames = []string{"response", "response_body", "result"}
	// Parameters of a bare request that LiteLLM keeps apart.
	parameterNames = []string{"model_parameters", "optional_params"}
	// What loggers put beside the members of a bare request.
	notSent = slices.Concat([]string{"usage", "prompt_tokens", "completion_tokens", "total_tokens", "custom_id", "id", "call_type"}, timeNames, sessionNames, responseNames)
)

// isRequest tells whether the first line of a file is a request.
func isRequest(members map[string]json.RawMessage) bool {
	_, body := requestIn(members)
	return body != nil
}

// requestIn finds the request in a line: its members and its text, or nil.
func requestIn(members map[string]json.RawMessage) (map[string]json.RawMessage, json.RawMessage) {
	for _, name := range bodyNames {
		inner, text := object(members[name])
		if inner == nil {
			continue
		}
		if isPrompt(inner) {
			return inner, text
		}
		if deeper, text := requestIn(inner); text != nil { // {"request": {"body": …}}
			return deeper, text
		}
	}
	if !isPrompt(members) {
		return nil, nil
	}
	own := maps.Clone(members)
	for _, name := range notSent {
		delete(own, name)
	}
	for _, name := range parameterNames {
		more, _ := object(members[name])
		maps.Copy(own, more)
		delete(own, name)
	}
	text, err := json.Marshal(own)
	if err != nil {
		return nil, nil
	}
	return own, text
}

func isPrompt(members map[string]json.RawMessage) bool {
	return has("messages")(members) || has("prompt")(members) || has("input")(members)
}

// object reads an object, or a text that has one in it.
func object(raw json.RawMessage) (map[string]json.RawMessage, json.RawMessage) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil, nil
	}
	return members, raw
}

func (r *reader) requestLine(_ int, text []byte) error {
	var line map[string]json.RawMessage
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	members, body := requestIn(line)
	if body == nil {
		return errors.New(`no request in it: want "messages", "prompt" or "input", bare or under "body" or "request"`)
	}
	o, err := r.canon.outline(textIn(line, pathNames), body)
	if err != nil {
		return err
	}
	q := &request{outline: o, at: noTime, output: outputOf(line, members)}
	if at, ok, err := timeIn(line); err != nil {
		return err
	} else if ok {
		q.at = at
	}
	o.tokens, _ = usageIn(line)
	o.session = textIn(line, sessionNames)
	r.trace.requests = append(r.trace.requests, q)
	return nil
}

// noTime marks a request without a timestamp until all are read.
const noTime = time.Duration(math.MinInt64)

// requestsDone lets those that came without a time arrive by chance: after the one
// before them in the file or, at its beginning, from the first time on.
func (r *reader) requestsDone() {
	t := r.trace
	lots := rand.New(rand.NewPCG(r.options.seed, 3))
	var last time.Duration
	if i := slices.IndexFunc(t.requests, func(q *request) bool { return q.at != noTime }); i > 0 {
		last = t.requests[i].at
	}
	for i, q := range t.requests {
		if q.at == noTime {
			t.untimed++
			if i > 0 {
				last += time.Duration(lots.ExpFloat64() / r.options.arrivals * float64(time.Second))
			}
			q.at = last
		}
		last = q.at
	}
	r.outlinesDone()
}

// textIn returns the first text that stands under one of the names.
func textIn(members map[string]json.RawMessage, names []string) string {
	for _, name := range names {
		var text string
		if json.Unmarshal(members[name], &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// timeIn returns the time of a line since 1970; ok is false when it has none.
func timeIn(members map[string]json.RawMessage) (at time.Duration, ok bool, err error) {
	for _, name := range timeNames {
		raw := members[name]
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		text := strings.Trim(string(raw), `"`)
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			at, err := sinceEpoch(n)
			return at, err == nil, err
		}
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
			if t, err := time.Parse(layout, text); err == nil {
				at, err := sinceEpochOf(t)
				return at, err == nil, err
			}
		}
		return 0, false, fmt.Errorf("%q is %.40q; want seconds or milliseconds as a number, or a time such as 2026-01-31T12:00:00Z", name, text)
	}
	return 0, false, nil
}

// sinceEpoch takes a number for seconds, or for milli-, micro- or nanoseconds
// where as seconds it would be thousands of years away.
func sinceEpoch(n float64) (time.Duration, error) {
	if n < 0 || math.IsNaN(n) || n >= math.MaxInt64 {
		return 0, fmt.Errorf("%g is not a time", n)
	}
	unit := time.Second
	for limit := 1e11; n >= limit && unit > time.Nanosecond; limit *= 1e3 {
		unit /= 1e3
	}
	if n*float64(unit) >= math.MaxInt64 {
		return 0, fmt.Errorf("%g is not a time", n)
	}
	return time.Duration(n * float64(unit)), nil
}

// sinceEpochOf refuses what a duration cannot hold, such as Go's zero time.
func sinceEpochOf(t time.Time) (time.Duration, error) {
	if y := t.UTC().Year(); y < 1970 || y > 2261 {
		return 0, fmt.Errorf("%v is no time of a request", t)
	}
	return time.Duration(t.UnixNano()), nil
}

// usageIn returns what an engine counted, if the log has it: the tokens of the
// prompt and of the answer, 0 where unknown.
func usageIn(line map[string]json.RawMessage) (prompt, completion int) {
	take := func(members map[string]json.RawMessage) {
		for _, name := range []string{"prompt_tokens", "input_tokens"} {
			json.Unmarshal(members[name], &prompt)
		}
		for _, name := range []string{"completion_tokens", "output_tokens"} {
			json.Unmarshal(members[name], &completion)
		}
	}
	take(line)
	within := []map[string]json.RawMessage{line}
	for _, name := range responseNames {
		if response, _ := object(line[name]); response != nil {
			within = append(within, response)
			if body, _ := object(response["body"]); body != nil {
				within = append(within, body)
			}
		}
	}
	for _, members := range within {
		if usage, _ := object(members["usage"]); usage != nil {
			take(usage)
		}
	}
	return max(prompt, 0), max(completion, 0)
}

// outputOf returns the length of the answer: as it was, or as it may be at most.
func outputOf(line, request map[string]json.RawMessage) int {
	if _, n := usageIn(line); n > 0 {
		return n
	}
	limit := 0
	for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
		json.Unmarshal(request[name], &limit)
	}
	if limit > 0 {
		return min(limit, defaultOutput)
	}
	return defaultOutput
}
