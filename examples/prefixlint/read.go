package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/examples/internal/logfile"
)

// request is one request of a log.
type request struct {
	line int
	api  canon.API
	body []byte
	at   float64 // seconds; 0 when the log does not say
}

// reader reads requests.
type reader struct {
	api canon.API // Unknown: told by the members
}

// leftOut is the lines of a log that are no requests.
type leftOut struct {
	lines int
	first []string // where, and why
}

// leftOutShown is how many of them are named.
const leftOutShown = 3

func (l *leftOut) add(line int, err error) {
	if l.lines++; len(l.first) < leftOutShown {
		l.first = append(l.first, fmt.Sprintf("line %d: %v", line, err))
	}
}

// log reads a file of one request a line, or standard input for "-". It is an
// error when there is none.
func (r reader) log(name string, in io.Reader) (all []request, bad leftOut, err error) {
	f, err := logfile.Open(name, in)
	if err != nil {
		return nil, bad, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, logfile.MaxLine)
	number := 0
	for lines.Scan() {
		number++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		q, err := r.request(bytes.Clone(text))
		if err != nil {
			bad.add(number, err)
			continue
		}
		q.line = number
		all = append(all, q)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, bad, fmt.Errorf("%s: line %d is longer than %d MiB; a log has one request on each line", name, number+1, logfile.MaxLine>>20)
	case err != nil:
		return nil, bad, fmt.Errorf("%s: line %d: %w", name, number+1, err)
	}
	if len(all) == 0 && bad.lines > 0 {
		return nil, bad, fmt.Errorf("%s: %s (a log has one request on each line; to compare two requests, give two files)", name, bad.first[0])
	}
	if len(all) == 0 {
		return nil, bad, fmt.Errorf("%s: no requests", name)
	}
	if !slices.ContainsFunc(all, func(q request) bool { return q.at == 0 }) {
		slices.SortStableFunc(all, func(a, b request) int {
			switch {
			case a.at < b.at:
				return -1
			case a.at > b.at:
				return 1
			}
			return 0
		})
	}
	return all, bad, nil
}

// file reads one request out of a file of its own, or standard input for "-".
func (r reader) file(name string, in io.Reader) (request, error) {
	f, err := logfile.Open(name, in)
	if err != nil {
		return request{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, logfile.MaxLine+1))
	if err != nil {
		return request{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > logfile.MaxLine {
		return request{}, fmt.Errorf("%s is longer than %d MiB; want one request", name, logfile.MaxLine>>20)
	}
	q, err := r.request(bytes.TrimSpace(text))
	if err != nil {
		return request{}, fmt.Errorf("%s: %w", name, err)
	}
	return q, nil
}

// request reads a body, or an object that has it under "body".
func (r reader) request(text []byte) (request, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		if syntax, ok := err.(*json.SyntaxError); ok {
			return request{}, fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
		}
		return request{}, fmt.Errorf("want an object: %w", err)
	}
	if members == nil {
		return request{}, fmt.Errorf("want an object, have null")
	}
	q := request{api: r.api, body: text}
	if body, wrapped := members["body"]; wrapped {
		var quoted string
		if json.Unmarshal(body, &quoted) == nil { // some loggers keep the body as a string
			body = []byte(quoted)
		}
		q.body = bytes.TrimSpace(body)
		var err error
		if q.at, err = instant(members["timestamp"]); err != nil {
			return request{}, err
		}
		if q.api == canon.Unknown {
			q.api = apiOfPath(stringOf(members["url"]) + stringOf(members["path"]))
		}
		members = nil
		if err := json.Unmarshal(q.body, &members); err != nil || members == nil {
			return request{}, fmt.Errorf("body is not a JSON object")
		}
	}
	if n := len(q.body); n > canon.DefaultMaxBytes {
		return request{}, &canon.SizeError{Size: n, Max: canon.DefaultMaxBytes}
	}
	if q.api == canon.Unknown {
		q.api = apiOfMembers(members)
	}
	if q.api == canon.Unknown {
		return request{}, fmt.Errorf("not a request: none of messages, input, prompt and body is there")
	}
	return q, nil
}

func stringOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// instant reads a timestamp: a number of any unit, or RFC 3339.
func instant(raw json.RawMessage) (float64, error) {
	if raw == nil || string(raw) == "null" {
		return 0, nil
	}
	var n float64
	if json.Unmarshal(raw, &n) == nil {
		return n, nil
	}
	t, err := time.Parse(time.RFC3339Nano, stringOf(raw))
	if err != nil {
		return 0, fmt.Errorf("timestamp is neither a number nor RFC 3339: %s", raw)
	}
	return float64(t.UnixMicro()) / 1e6, nil
}

func apiNamed(name string) canon.API {
	for _, api := range []canon.API{canon.Chat, canon.Completions, canon.Embeddings, canon.Responses, canon.Messages} {
		if api.String() == name {
			return api
		}
	}
	return canon.Unknown
}

func apiOfPath(path string) canon.API {
	for suffix, api := range map[string]canon.API{
		"/chat/completions": canon.Chat, "/v1/completions": canon.Completions, "/embeddings": canon.Embeddings,
		"/responses": canon.Responses, "/v1/messages": canon.Messages,
	} {
		if strings.HasSuffix(path, suffix) {
			return api
		}
	}
	return canon.Unknown
}

// apiOfMembers tells the API by what only it has.
func apiOfMembers(members map[string]json.RawMessage) canon.API {
	has := func(name string) bool { _, ok := members[name]; return ok }
	switch {
	case has("messages") && (has("system") || has("thinking") || has("stop_sequences") || bytes.Contains(members["tools"], []byte(`"input_schema"`))):
		return canon.Messages
	case has("messages"):
		return canon.Chat
	case has("input") && (has("encoding_format") || has("dimensions")):
		return canon.Embeddings
	case has("input"):
		return canon.Responses
	case has("prompt"):
		return canon.Completions
	}
	return canon.Unknown
}
