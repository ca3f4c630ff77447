package vllmsim

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// format writes the answers of one API. Streams get the calls from opened to
// closed in order; plain answers are made by whole.
type format interface {
	opened(b *bytes.Buffer, j *job, now []progress)                      // before anything else of a stream, when the first output is there
	began(b *bytes.Buffer, j *job, i int)                                // the first output of answer i is there
	delta(b *bytes.Buffer, j *job, i int, text, finish string, u *usage) // finish is empty before the end
	failed(b *bytes.Buffer, e *apiError)                                 // the last of a stream that breaks
	closed(b *bytes.Buffer, j *job, u usage, done bool)                  // done: with [DONE]
	whole(j *job, texts, finishes []string, u usage) any
	writeError(w http.ResponseWriter, e *apiError)
}

// serve computes a job and answers in the format of its API.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, j *job, f format, continuous bool) {
	c, e := s.start(j)
	if e != nil {
		if j.fault.Status != 0 && j.fault.RetryAfter != "" {
			w.Header().Set("Retry-After", j.fault.RetryAfter)
		}
		f.writeError(w, e)
		return
	}
	if c != nil {
		// Covers the client that goes away: the engine stops working for it.
		defer s.driver.cancel(c)
	}
	if j.stream {
		serveStream(w, r, j, c, f, continuous)
	} else {
		servePlain(w, r, j, c, f)
	}
}

func servePlain(w http.ResponseWriter, r *http.Request, j *job, c *call, f format) {
	now := make([]progress, len(j.choices))
	aborted := c == nil
	for c != nil {
		if aborted = c.snapshot(now); aborted || allDone(now) {
			break
		}
		if c.wait(r.Context()) != nil {
			return // nobody is left to answer
		}
	}
	if j.fault.Stream == StreamAbort {
		aborted, now = true, make([]progress, len(j.choices))
	}
	if j.fault.Stream == StreamError || j.fault.Stream == StreamEmpty {
		f.writeError(w, internalError())
		return
	}
	texts, finishes := make([]string, len(now)), make([]string, len(now))
	for i := range now {
		texts[i], finishes[i] = j.choices[i].text(0, now[i].generated), j.choices[i].finish
		if aborted && !now[i].done {
			finishes[i] = "abort"
		}
	}
	body, err := json.Marshal(f.whole(j, texts, finishes, j.usage(now)))
	if err != nil { // only this package's own types come here
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if j.fault.Stream == StreamCut {
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.Write(body)
}

func allDone(now []progress) bool {
	for _, p := range now {
		if !p.done {
			return false
		}
	}
	return true
}

// streaming is the state of one stream.
type streaming struct {
	j          *job
	f          format
	b          bytes.Buffer
	now        []progress
	sent       []progress // what has been written of now
	tokens     int        // written, over all answers
	total      int        // to be written, over all answers
	continuous bool
	opened     bool
}

// serveStream sends the headers at once, as vLLM does: they say nothing about
// the engine. The first event follows the first output.
func serveStream(w http.ResponseWriter, r *http.Request, j *job, c *call, f format, continuous bool) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	out.Flush()
	st := &streaming{j: j, f: f, continuous: continuous,
		now: make([]progress, len(j.choices)), sent: make([]progress, len(j.choices))}
	for _, c := range j.choices {
		st.total += c.length
	}
	for {
		aborted := c == nil || c.snapshot(st.now)
		spoiled := st.write()
		if aborted && !spoiled {
			st.abort()
		}
		ended := aborted || spoiled || allDone(st.now)
		if broken := spoiled && j.fault.Stream != StreamAbort; ended && !broken {
			f.closed(&st.b, j, j.usage(st.now), j.fault.Stream != NoDone)
		}
		if st.b.Len() > 0 {
			w.Write(st.b.Bytes()) // an error ends the request's context
			out.Flush()
			st.b.Reset()
		}
		if spoiled && j.fault.Stream == StreamCut {
			panic(http.ErrAbortHandler)
		}
		if ended || c.wait(r.Context()) != nil {
			return
		}
	}
}

// write renders what is new and reports whether the fault has struck.
func (st *streaming) write() (spoiled bool) {
	for i := range st.now {
		p, s := &st.now[i], &st.sent[i]
		if p.started && !s.started {
			if st.spoilsBefore() {
				st.spoil()
				return true
			}
			st.begin(i)
		}
		for s.generated < p.generated {
			to := p.generated
			if st.faulty() {
				if st.tokens >= st.j.fault.AfterTokens || st.tokens == st.total-1 {
					st.spoil()
					return true
				}
				to = s.generated + 1
			}
			finish := ""
			if p.done && to == p.generated {
				finish = st.j.choices[i].finish
			}
			st.delta(i, to, finish)
		}
	}
	return false
}

func (st *streaming) faulty() bool {
	return st.j.fault.Stream != StreamOK && st.j.fault.Stream != NoDone
}

// spoilsBefore says that the fault strikes before the first event.
func (st *streaming) spoilsBefore() bool {
	return st.faulty() && !st.opened && (st.j.fault.AfterTokens < 0 || st.j.fault.Stream == StreamEmpty)
}

func (st *streaming) begin(i int) {
	if !st.opened {
		st.opened = true
		st.f.opened(&st.b, st.j, st.now)
	}
	st.sent[i].started = true
	st.f.began(&st.b, st.j, i)
}

func (st *streaming) delta(i, to int, finish string) {
	from := st.sent[i].generated
	st.tokens += to - from
	st.sent[i].generated, st.sent[i].done = to, finish != ""
	var u *usage
	if st.continuous {
		v := st.j.usage(st.sent)
		u = &v
	}
	st.f.delta(&st.b, st.j, i, st.j.choices[i].text(from, to), finish, u)
}

func (st *streaming) spoil() {
	switch st.j.fault.Stream {
	case StreamError:
		st.f.failed(&st.b, internalError())
	case StreamAbort:
		st.abort()
	case StreamEmpty:
		st.b.WriteString("data: [DONE]\n\n")
	}
}

// abort ends every answer that has not ended.
func (st *streaming) abort() {
	for i := range st.sent {
		if !st.sent[i].started {
			st.begin(i)
		}
		if !st.sent[i].done {
			st.delta(i, st.sent[i].generated, "abort")
		}
	}
}

// event appends one server-sent event with only a data line.
func event(b *bytes.Buffer, v any) {
	data, err := json.Marshal(v)
	if err != nil { // only this package's own types come here
		panic(err)
	}
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
}
