package middleware

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prefixwise/prefixwise/canon"
)

const (
	// maxLine bounds a line of a stream.
	maxLine = 16 << 20
	// drainBytes and drainTime bound what is read after the end mark, so that
	// the connection can be used again: go-openai stops reading at [DONE],
	// and fifty streams then opened fifty connections.
	drainBytes = 64 << 10
	drainTime  = 250 * time.Millisecond
)

// receiveStream reads a stream up to its first content and returns it, or
// fails in a way that can be tried again.
func (r *route) receiveStream(resp *http.Response, f *flight) (*http.Response, error) {
	s := &stream{
		flight: f,
		body:   resp.Body,
		judge:  judgeOf(f.call.api, f.call.prompt.UsageAdded, choicesWanted(f.call.api, f.call.body), r.StreamError),
	}
	s.lines = bufio.NewReaderSize(readerFunc(s.readBody), 16<<10)
	if s.judge == nil {
		s.begun = true
	}
	for !s.begun && s.err == nil {
		s.line()
	}
	if s.err != nil && s.err != io.EOF {
		resp.Body.Close()
		if s.err == ErrTruncated && s.plain() {
			return r.judgePlain(resp, s.ready, f)
		}
		return nil, f.fail(PhaseFirstByte, s.err)
	}
	f.answer()
	resp.Body = s
	resp.ContentLength = -1
	resp.Header.Del("Content-Length") // an event may be swallowed
	return resp, nil
}

// plain tells whether what has ended is no stream, whatever it was called: it has
// lines, and none is an event's.
func (s *stream) plain() bool {
	return !s.events && len(bytes.TrimSpace(s.ready)) > 0 && !isEvents(s.ready)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A stream is the body of a server-sent event stream. It passes lines on
// unchanged and as they come, but for the events that its judge tells it to
// hold back. Each step reads one line; what the caller may have is in ready.
type stream struct {
	flight    *flight
	body      io.ReadCloser
	lines     *bufio.Reader
	judge     judge
	ready     []byte // lines for the caller; those before off are delivered
	off       int
	held      []byte      // an event's lines whose data is not complete yet
	data      []byte      // the data of the held lines
	events    bool        // a line with data has come
	begun     bool        // the first content has come
	ended     atomic.Bool // the end mark has come and was good
	skipBlank bool        // the blank line after an event that was held back
	delivered int64
	shown     error // a failure that the caller sees as an event
	err       error // after ready: io.EOF, or why the stream failed
}

// readBody reads from the connection. Until the first content the first-byte
// limit runs on; after that each read has the idle limit.
func (s *stream) readBody(p []byte) (int, error) {
	if !s.begun {
		return s.body.Read(p)
	}
	return s.flight.read(s.body, p)
}

// Read returns what has arrived. It blocks for the first line only.
func (s *stream) Read(p []byte) (int, error) {
	for s.off == len(s.ready) && s.err == nil {
		s.ready, s.off = s.ready[:0], 0
		s.line()
		for s.err == nil && len(s.ready) < len(p) && s.lineWaiting() {
			s.line()
		}
	}
	if s.err != nil && s.err != io.EOF {
		// The caller may close the stream without reading on to the error.
		s.flight.land(s.flight.reason(s.err))
	}
	if s.off < len(s.ready) {
		n := copy(p, s.ready[s.off:])
		s.off += n
		s.delivered += int64(n)
		if s.off == len(s.ready) && s.ended.Load() {
			s.flight.complete(s.shown)
		}
		return n, nil
	}
	if s.err == io.EOF {
		s.flight.complete(s.shown)
		s.flight.close()
		return 0, io.EOF
	}
	var failed *Error
	if !errors.As(s.err, &failed) {
		s.err = s.flight.interrupt(s.err, s.delivered)
	}
	return 0, s.err
}

// lineWaiting reports whether a whole line can be read without blocking.
func (s *stream) lineWaiting() bool {
	buffered, _ := s.lines.Peek(s.lines.Buffered())
	return bytes.IndexByte(buffered, '\n') >= 0
}

// line reads and judges one line.
func (s *stream) line() {
	line, err := s.lines.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		line, err = s.longLine(bytes.Clone(line))
	}
	if len(line) > 0 {
		s.take(line)
	}
	if err == nil || s.err != nil {
		return
	}
	if len(s.held) > 0 { // the last event has no blank line after it
		s.release()
	}
	if s.ended.Load() {
		err = io.EOF // the answer was complete, however the connection ended
	} else if err == io.EOF && s.judge != nil {
		if failed := s.judge.ended(); failed != nil {
			err = failed
		}
	}
	s.err = err
}

func (s *stream) longLine(line []byte) ([]byte, error) {
	for {
		more, err := s.lines.ReadSlice('\n')
		line = append(line, more...)
		if err != bufio.ErrBufferFull {
			return line, err
		}
		if len(line) > maxLine {
			return nil, ErrLineTooLong
		}
	}
}

// take judges a line and puts it where it belongs.
func (s *stream) take(line []byte) {
	text := bytes.TrimSpace(line) // as go-openai does before it looks at a line
	data, isData := bytes.CutPrefix(text, []byte("data:"))
	s.events = s.events || isData
	if !s.begun && len(s.ready) > maxLine || len(s.held) > maxLine {
		s.err = ErrLineTooLong
		return
	}
	switch {
	case s.judge == nil || s.ended.Load():
		s.ready = append(s.ready, line...)
	case len(text) == 0:
		if len(s.held) > 0 {
			s.release()
		}
		if !s.skipBlank {
			s.ready = append(s.ready, line...)
		}
		s.skipBlank = false
	case !isData && len(s.held) > 0: // keep the order of an event's lines
		s.held = append(s.held, line...)
	case !isData: // a comment, or event:, id:, retry:
		s.ready = append(s.ready, line...)
	case len(s.held) > 0:
		s.held = append(s.held, line...)
		s.data = append(append(s.data, '\n'), bytes.TrimPrefix(data, []byte(" "))...)
	default:
		s.event(bytes.TrimSpace(data), line)
	}
}

// event judges the data of an event that began with the given line.
func (s *stream) event(data, line []byte) {
	v, err := s.judge.event(data)
	if err == io.ErrUnexpectedEOF {
		s.held = append(s.held, line...)
		s.data = append(s.data, data...)
		return
	}
	s.obey(v, data, line)
}

// release judges the event whose lines are held, now that it is complete.
func (s *stream) release() {
	held, data := s.held, s.data
	s.held, s.data = nil, nil
	v, _ := s.judge.event(data) // still cut short: the caller's to judge
	s.obey(v, data, held)
}

func (s *stream) obey(v verdict, data, lines []byte) {
	f := s.flight
	if v.failed != nil && (!v.show || !s.begun) {
		s.err = v.failed
		return
	}
	if v.failed != nil {
		s.shown = v.failed
	}
	if v.swallow {
		s.skipBlank = true
		f.setUsage(s.judge.usage())
		return
	}
	if mapped := mapReasoning(data); len(mapped) != len(data) {
		lines = bytes.Replace(lines, data, mapped, 1)
	}
	s.ready = append(s.ready, lines...)
	if f.call.api == canon.Responses && !s.begun {
		f.route.responses.remember(responseID(data), f.endpoint.ID)
	}
	if v.content && !s.begun {
		s.begun = true
		f.relax()
		f.arrived()
	}
	if v.last {
		s.ended.Store(true)
		f.setUsage(s.judge.usage())
		f.land(nil)
	}
}

// Close ends the stream. After the end mark it drains the connection, within
// bounds; before it, the connection is closed and the engine stops.
func (s *stream) Close() error {
	if s.ended.Load() {
		limit := time.AfterFunc(drainTime, func() { s.flight.cancel(ErrIdleTimeout) })
		io.CopyN(io.Discard, s.body, drainBytes)
		limit.Stop()
	}
	err := s.body.Close()
	s.flight.complete(s.flight.caller.Err()) // one who cancels may close it first
	s.flight.close()
	return err
}
