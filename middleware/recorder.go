package middleware

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prefixwise/prefixwise/affinity"
)

// RecorderOptions are the settings of [NewRecorder]. The zero value works.
type RecorderOptions struct {
	// Salt, if not empty, is a secret that every hash is mixed with
	// (HMAC-SHA256), at least 16 bytes long. Without it, whoever has a
	// recording can confirm a guess: hash a prompt that may have been sent,
	// and look for it. Recordings with the same salt can be compared with one
	// another, and none with the hashes that Prefixwise shows elsewhere.
	Salt []byte
	// Queue is how many calls may wait to be written; 0 means 1,024, a second
	// of a busy client. What comes when it is full is dropped.
	Queue int
	// OnError is told of the first error of the writer; later ones only count
	// as dropped. It runs in a goroutine of its own, for which Close does not
	// wait, so it may call Close. Nil means that nothing is told; Close
	// returns the error all the same.
	OnError func(error)
}

// Recorder writes a [Record] of each call that it is told of, for
// examples/replay and for tools of your own. Calls never wait for it: one
// goroutine writes, and what it cannot keep up with is dropped and counted.
//
// Several clients may share a Recorder. It is safe for concurrent use. Close it
// after the clients.
type Recorder struct {
	w       io.Writer
	trace   *Trace
	salted  bool
	onError func(error)

	mu     sync.RWMutex // guards closed, so that nothing is put into a closed queue
	closed bool
	queue  chan Done
	done   chan struct{} // closed when the goroutine has ended

	written, dropped atomic.Uint64
	failure          error // the first one of w; read it after done is closed
	torn             bool  // w took a part of a line
	// Only the goroutine that writes uses these.
	mac     hash.Hash
	scratch []byte
}

// NewRecorder returns a Recorder that writes to w: a [RecordFile], or any other
// io.Writer. Each Write has one whole line or several. The Recorder does not
// close w.
func NewRecorder(w io.Writer, o RecorderOptions) (*Recorder, error) {
	switch {
	case w == nil:
		return nil, errors.New("recorder: no writer; give it a RecordFile or another io.Writer")
	case o.Queue < 0:
		return nil, fmt.Errorf("recorder: Queue is %d; use 0 for the default of 1024, or a number of calls", o.Queue)
	case len(o.Salt) > 0 && len(o.Salt) < minRecordSalt:
		return nil, fmt.Errorf("recorder: Salt has %d bytes; give it %d random ones, or none", len(o.Salt), minRecordSalt)
	}
	r := &Recorder{
		w: w, salted: len(o.Salt) > 0, mac: hmac.New(sha256.New, o.Salt), onError: o.OnError,
		queue: make(chan Done, cmp.Or(o.Queue, 1024)), done: make(chan struct{}),
	}
	r.trace = &Trace{Done: r.take}
	go r.run()
	return r, nil
}

// minRecordSalt is half of what SHA-256 puts out; RFC 2104 asks of HMAC keys
// that they be not much shorter than the hash.
const minRecordSalt = 16

// Trace returns the hooks by which the Recorder learns of calls, for [Observe].
// Calls that have no prompt, and those that [Canonicalize] has refused, are
// not recorded.
func (r *Recorder) Trace() *Trace { return r.trace }

// Written is how many calls have been written, and Dropped how many have not,
// because the queue was full, the writer failed, or the Recorder was closed.
func (r *Recorder) Written() uint64 { return r.written.Load() }

// Dropped is described at Written.
func (r *Recorder) Dropped() uint64 { return r.dropped.Load() }

// Close writes what is waiting and returns the first error of the writer. Calls
// that end later are dropped. It waits for the writer. It is safe to call it
// again.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.queue)
	}
	r.mu.Unlock()
	<-r.done
	return r.failure
}

// take queues a call that has ended.
func (r *Recorder) take(d Done) {
	if len(d.Boundaries) == 0 {
		return
	}
	if len(d.Boundaries) > maxRecordBoundaries { // the rest must not wait in memory
		last := d.Boundaries[len(d.Boundaries)-1]
		d.Boundaries = append(slices.Clone(d.Boundaries[:maxRecordBoundaries-1]), last)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		r.dropped.Add(1)
		return
	}
	select {
	case r.queue <- d:
	default:
		r.dropped.Add(1)
	}
}

// maxBatch is how much is written at once when calls are waiting.
const maxBatch = 64 << 10

func (r *Recorder) run() {
	defer close(r.done)
	var batch []byte
	calls := uint64(0)
	for d := range r.queue {
		line, err := r.record(&d).MarshalJSON()
		if err != nil {
			r.fail(err, 1)
			continue
		}
		batch = append(append(batch, line...), '\n')
		calls++
		if len(r.queue) == 0 || len(batch) >= maxBatch {
			r.write(batch, calls)
			batch, calls = batch[:0], 0
		}
	}
	if calls > 0 {
		r.write(batch, calls)
	}
}

func (r *Recorder) write(batch []byte, calls uint64) {
	if r.torn { // end the line that was cut, so that it spoils no other
		batch = append([]byte{'\n'}, batch...)
	}
	n, err := r.w.Write(batch)
	if n > 0 {
		r.torn = batch[min(n, len(batch))-1] != '\n'
	}
	if err == nil && n < len(batch) {
		err = io.ErrShortWrite
	}
	if err != nil {
		r.fail(err, calls)
		return
	}
	r.written.Add(calls)
}

func (r *Recorder) fail(err error, calls uint64) {
	r.dropped.Add(calls)
	if r.failure != nil {
		return
	}
	r.failure = err
	if r.onError != nil {
		go r.onError(err) // the goroutine that writes is one that Close waits for
	}
}

func (r *Recorder) record(d *Done) Record {
	record := Record{
		Time: d.Start, API: d.API, Model: d.Model, Head: r.mix(d.Head), Root: r.mix(d.Root), Stream: d.Stream,
		Session: r.name("session", d.Session), Tenant: r.name("tenant", d.Tenant), CacheKey: r.name("cache key", d.CacheKey),
		Endpoint: d.Endpoint, Outcome: d.Outcome(), Status: d.Status,
		PromptTokens: d.PromptTokens, CachedTokens: d.CachedTokens, CompletionTokens: d.CompletionTokens,
		FirstByte: d.FirstByte, Total: d.Total,
		Boundaries: make([]affinity.Boundary, len(d.Boundaries)),
	}
	for i, b := range d.Boundaries {
		record.Boundaries[i] = affinity.Boundary{Hash: r.mix(b.Hash), Bytes: b.Offset}
	}
	return record
}

// mix returns a hash of the prompt as it is recorded. Without a salt it is the
// one that canon shows elsewhere.
func (r *Recorder) mix(h uint64) uint64 {
	if !r.salted {
		return h
	}
	return r.sum("prefix", binary.LittleEndian.AppendUint64(nil, h))
}

// name returns the hash of an id, 0 if there is none.
func (r *Recorder) name(kind, id string) uint64 {
	if id == "" {
		return 0
	}
	return r.sum(kind, []byte(id))
}

func (r *Recorder) sum(kind string, value []byte) uint64 {
	r.mac.Reset()
	r.scratch = append(append(append(r.scratch[:0], kind...), 0), value...)
	r.mac.Write(r.scratch)
	r.scratch = r.mac.Sum(r.scratch[:0])
	return binary.LittleEndian.Uint64(r.scratch)
}
