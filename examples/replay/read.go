package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/prefixwise/prefixwise/examples/internal/logfile"
)

const maxLine = logfile.MaxLine

// reader reads one file of traffic, whatever its format.
type reader struct {
	name    string
	trace   *trace
	options readOptions
	canon   *canonicalizer
}

// readOptions are what a file may not say by itself.
type readOptions struct {
	prefixes []int   // numbers of characters that will be asked for
	arrivals float64 // requests a second where there are no timestamps
	users    int     // of agent sessions: so many at a time
	sessions int     // so many of them; 0: all
	think    float64 // seconds before the next request of a session
	seed     uint64
}

// errEmptyTrace is wrapped when there is nothing to replay.
var errEmptyTrace = errors.New("no requests in it")

// format is one of the kinds of file.
type format struct {
	name string
	is   func(members map[string]json.RawMessage) bool // by the first line
	line func(r *reader, n int, text []byte) error
	done func(r *reader)
}

// formats are those with one JSON object a line, in the order of trying.
var formats = []format{
	{"Mooncake trace", has("input_length"), (*reader).mooncakeLine, (*reader).mooncakeDone},
	{"recording of middleware.Recorder", has("v", "boundaries"), (*reader).recordLine, (*reader).outlinesDone},
	{"log of requests", isRequest, (*reader).requestLine, (*reader).requestsDone},
}

func has(names ...string) func(map[string]json.RawMessage) bool {
	return func(members map[string]json.RawMessage) bool {
		for _, n := range names {
			if _, ok := members[n]; !ok {
				return false
			}
		}
		return true
	}
}

const wanted = `want one JSON object a line: a Mooncake trace ("timestamp", "input_length", "output_length", "hash_ids"), ` +
	`a recording of middleware.Recorder ("v", "time", "boundaries"), or requests ("messages", "prompt" or "input", bare or under "body" or "request", with a "timestamp" beside it); ` +
	`or one JSON array of tau-bench's trajectories ("traj")`

// loadTrace reads a file of traffic; "-" is the standard input.
func loadTrace(path string, o readOptions) (*trace, error) {
	f, err := logfile.Open(path, os.Stdin)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if path == "-" {
		path = "standard input"
	}
	return readTrace(path, f, o)
}

func readTrace(name string, f io.Reader, o readOptions) (*trace, error) {
	c, err := newCanonicalizer(o.prefixes)
	if err != nil {
		return nil, err
	}
	r := &reader{name: name, trace: &trace{name: name}, options: o, canon: c}
	in := bufio.NewReader(f)
	begin, skipped, err := firstByte(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if begin == '[' {
		err = r.sessions(in)
	} else {
		err = r.lines(in, skipped)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r.trace, nil
}

// firstByte skips white space and peeks. It returns the
// number of lines that were skipped.
func firstByte(in *bufio.Reader) (b byte, lines int, err error) {
	for {
		b, err = in.ReadByte()
		if err == io.EOF {
			return 0, lines, errEmptyTrace
		}
		if err != nil {
			return 0, lines, err
		}
		if bytes.IndexByte([]byte(" \t\r\n"), b) < 0 {
			return b, lines, in.UnreadByte()
		}
		if b == '\n' {
			lines++
		}
	}
}

// lines reads a file with one object a line, after the first ones were skipped.
func (r *reader) lines(in io.Reader, skipped int) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine)
	var kind *format
	read := 0
	for n := skipped + 1; scanner.Scan(); n++ {
		text := bytes.TrimSpace(scanner.Bytes())
		if len(text) == 0 {
			continue
		}
		read++
		if kind == nil {
			var members map[string]json.RawMessage
			if err := json.Unmarshal(text, &members); err != nil {
				r.bad(n, err)
				continue
			}
			i := slices.IndexFunc(formats, func(f format) bool { return f.is(members) })
			if i < 0 {
				return fmt.Errorf("line %d is in no known format; %s", n, wanted)
			}
			kind = &formats[i]
		}
		if err := kind.line(r, n, text); err != nil {
			r.bad(n, err)
		}
	}
	if err := scanner.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return fmt.Errorf("a line is longer than %d MiB; %s", maxLine>>20, wanted)
		}
		return err
	}
	switch {
	case len(r.trace.requests) > 0:
		kind.done(r)
		return nil
	case len(r.trace.bad) > 0:
		return fmt.Errorf("none of %d lines is a request, %s; %s", read, r.trace.bad[0], wanted)
	}
	return errEmptyTrace
}

// badShown is how many of the lines that were left out are named.
const badShown = 3

// bad notes a line that is left out.
func (r *reader) bad(n int, err error) {
	if r.trace.badLines++; len(r.trace.bad) < badShown {
		r.trace.bad = append(r.trace.bad, fmt.Sprintf("line %d: %v", n, err))
	}
}
