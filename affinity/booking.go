package affinity

import (
	"sync/atomic"
	"time"
)

// bookings say how long an endpoint's queue is: until when its engine has work
// that this router knows of. What the router sends is added to the end, or to the
// present when the engine has been idle since (Lindley's recursion for the wait in
// a queue), and each reading of the gauges puts the end right. What had been sent
// too shortly before a reading to be in it is added again, for which it is also
// kept by the time of sending. When all that the router has sent is computed, its
// bookings are over, however long they were for. All methods are lock-free; the
// zero value has nothing booked.
type bookings struct {
	open  atomic.Int64                // requests that were added and are not done
	until atomic.Int64                // the end of the queue, nanoseconds
	slots [bookingSlots]atomic.Uint64 // number of the slot in time << 40 | microseconds
}

// The slots reach back farther than seenAfter.
const (
	bookingSlots = 4
	bookingSlot  = 100 * time.Millisecond
	bookingBits  = 40
)

// add books a request, until done is called for it.
func (b *bookings) add(now time.Duration, seconds float64) {
	b.open.Add(1)
	n := bookingNumber(now)
	s := &b.slots[n%bookingSlots]
	amount := uint64(max(0, seconds)*1e6) & (1<<bookingBits - 1)
	for {
		old := s.Load()
		next := n<<bookingBits | amount
		if old>>bookingBits == n&(1<<(64-bookingBits)-1) {
			next = old + amount
		}
		if s.CompareAndSwap(old, next) {
			break
		}
	}
	for {
		old := b.until.Load()
		if b.until.CompareAndSwap(old, max(old, int64(now))+int64(seconds*1e9)) {
			return
		}
	}
}

// done says that a request's prompt is computed, or will never be. What others
// have sent takes so many seconds from now.
func (b *bookings) done(now time.Duration, others float64) {
	until := b.until.Load() // before the count, so that one who books meanwhile is kept
	if b.open.Add(-1) > 0 {
		return
	}
	if b.until.CompareAndSwap(until, min(until, int64(now)+int64(others*1e9))) {
		for i := range b.slots {
			if b.slots[i].Load() != 0 { // a store costs ten times as much
				b.slots[i].Store(0)
			}
		}
	}
}

// correct takes a reading: an engine had so many seconds of work at now, without
// what was sent there since seenAfter before.
func (b *bookings) correct(now time.Duration, seconds float64) {
	for {
		old := b.until.Load()
		unseen := uint64(0)
		for n := bookingNumber(now - seenAfter); n <= bookingNumber(now); n++ {
			if v := b.slots[n%bookingSlots].Load(); v>>bookingBits == n&(1<<(64-bookingBits)-1) {
				unseen += v & (1<<bookingBits - 1)
			}
		}
		if b.until.CompareAndSwap(old, int64(now)+int64(seconds*1e9)+int64(unseen*1e3)) {
			return
		}
	}
}

// bookingNumber numbers the slots of time.
func bookingNumber(at time.Duration) uint64 { return uint64(max(0, at) / bookingSlot) }

// queued returns the seconds until the end of the queue.
func (b *bookings) queued(now time.Duration) float64 {
	return max(0, time.Duration(b.until.Load())-now).Seconds()
}
