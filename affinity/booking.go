package affinity

import (
	"sync/atomic"
	"time"
)

// bookings are the seconds of prefill that this router has sent to an endpoint,
// so that what an engine's gauges cannot show yet is known all the same. They
// are kept in two forms: by the time of sending, to be added to a reading of the
// gauges, and as a queue that runs down by itself, for an engine without gauges.
// All methods are lock-free; the zero value has nothing booked.
type bookings struct {
	slots [bookingSlots]atomic.Uint64 // number of the slot in time << 40 | microseconds
	until atomic.Int64                // when the queue will have run down, nanoseconds
}

// The slots reach back 1.6 s: a reading a second, late by a fifth, and
// seenAfter before it.
const (
	bookingSlots = 16
	bookingSlot  = 100 * time.Millisecond
	bookingBits  = 40
)

func (b *bookings) add(now time.Duration, seconds float64) {
	n := uint64(now / bookingSlot)
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

// since returns the seconds booked from a moment on, which may be at most 1.5 s
// ago.
func (b *bookings) since(from, now time.Duration) float64 {
	first, last := uint64(max(0, from)/bookingSlot), uint64(now/bookingSlot)
	if last >= bookingSlots {
		first = max(first, last-bookingSlots+1)
	}
	var sum uint64
	for n := first; n <= last; n++ {
		if v := b.slots[n%bookingSlots].Load(); v>>bookingBits == n&(1<<(64-bookingBits)-1) {
			sum += v & (1<<bookingBits - 1)
		}
	}
	return float64(sum) / 1e6
}

// queued returns the seconds until what was booked would be done, if nobody else
// sent anything.
func (b *bookings) queued(now time.Duration) float64 {
	return max(0, time.Duration(b.until.Load())-now).Seconds()
}
