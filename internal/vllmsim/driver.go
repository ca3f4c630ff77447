package vllmsim

import (
	"context"
	"errors"
	"sync"
	"time"
)

// tick is the shortest time the driver sleeps: steps that end within it are
// delivered together, which bounds the work of very fast engines (TimeScale)
// on few cores. It is far below a real step of 14 ms.
const tick = time.Millisecond

var errClosed = errors.New("vllmsim: engine closed")

// driver runs an Engine in real time: one goroutine that sleeps until the next
// step ends. All access to the engine goes through mu.
type driver struct {
	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	mu     sync.Mutex
	engine *Engine
	start  time.Time
	lost   time.Duration // time during which the engine was frozen
	frozen time.Time     // zero: running
	closed bool
	calls  map[ID]callRef
}

type callRef struct {
	call  *call
	index int
}

// call is one HTTP request: the sequences computed for it and a signal that
// something about them has changed.
type call struct {
	changed chan struct{} // holds at most one signal
	ids     []ID

	mu        sync.Mutex
	sequences []progress
	aborted   bool // the engine gave up on all of them
}

type progress struct {
	generated, cached int
	started, done     bool
}

func newDriver(e *Engine) *driver {
	d := &driver{
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		engine: e, start: time.Now(), calls: map[ID]callRef{},
	}
	go d.run()
	return d
}

func (d *driver) run() {
	defer close(d.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(d.advance())
		select {
		case <-timer.C:
		case <-d.wake:
		case <-d.stop:
			return
		}
	}
}

// advance brings the engine to the present and returns how long to sleep.
func (d *driver) advance() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.frozen.IsZero() {
		return time.Hour // thaw wakes it
	}
	now := d.now()
	d.engine.Advance(now, d.deliver)
	next, ok := d.engine.Next()
	if !ok {
		return time.Hour // submit wakes it
	}
	return max(next-now, tick)
}

// now is the engine's time; it stands still while the engine is frozen.
func (d *driver) now() time.Duration {
	t := d.frozen
	if t.IsZero() {
		t = time.Now()
	}
	return t.Sub(d.start) - d.lost
}

func (d *driver) deliver(ev Event) {
	ref, ok := d.calls[ev.ID]
	if !ok {
		return
	}
	if ev.Done {
		delete(d.calls, ev.ID)
	}
	c := ref.call
	c.mu.Lock()
	p := &c.sequences[ref.index]
	p.generated, p.cached, p.started, p.done = ev.Generated, ev.Cached, true, ev.Done
	c.mu.Unlock()
	c.signal()
}

func (c *call) signal() {
	select {
	case c.changed <- struct{}{}:
	default: // one is pending already
	}
}

// submit queues requests together: all or none.
func (d *driver) submit(requests []Request) (*call, error) {
	c := &call{changed: make(chan struct{}, 1), sequences: make([]progress, len(requests))}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	now := d.now()
	if d.frozen.IsZero() {
		d.engine.Advance(now, d.deliver)
	}
	for i, r := range requests {
		id, err := d.engine.Submit(now, r)
		if err != nil {
			d.cancelLocked(c)
			return nil, err
		}
		c.ids = append(c.ids, id)
		d.calls[id] = callRef{c, i}
	}
	d.poke()
	return c, nil
}

func (d *driver) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// cancel drops what is left of a call.
func (d *driver) cancel(c *call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancelLocked(c)
}

func (d *driver) cancelLocked(c *call) {
	for _, id := range c.ids {
		if _, ok := d.calls[id]; ok {
			delete(d.calls, id)
			d.engine.Cancel(d.now(), id)
		}
	}
}

// abortAll drops every call and tells it so.
func (d *driver) abortAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.abortLocked()
}

func (d *driver) abortLocked() {
	for id, ref := range d.calls {
		delete(d.calls, id)
		d.engine.Cancel(d.now(), id)
		ref.call.mu.Lock()
		ref.call.aborted = true
		ref.call.mu.Unlock()
		ref.call.signal()
	}
}

// freeze stops the engine's time, or lets it go on from where it stood.
func (d *driver) freeze(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case on && d.frozen.IsZero():
		d.frozen = time.Now()
	case !on && !d.frozen.IsZero():
		d.lost += time.Since(d.frozen)
		d.frozen = time.Time{}
		d.poke()
	}
}

// do runs f with the engine, brought to the present.
func (d *driver) do(f func(*Engine)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen.IsZero() && !d.closed {
		d.engine.Advance(d.now(), d.deliver)
	}
	f(d.engine)
	d.poke()
}

func (d *driver) close() {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	d.abortLocked()
	d.mu.Unlock()
	if first {
		close(d.stop)
	}
	<-d.done
}

// wait blocks until the call has changed or ctx ends.
func (c *call) wait(ctx context.Context) error {
	select {
	case <-c.changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// snapshot copies the progress into dst and reports whether the engine gave up.
func (c *call) snapshot(dst []progress) (aborted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	copy(dst, c.sequences)
	return c.aborted
}
