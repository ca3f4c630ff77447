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
	total atomic.Uint64               // microseconds booked since ever
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
	b.total.Add(amount)
	for {
		old := b.until.Load()
		if b.until.CompareAndSwap(old, max(old, int64(now))+int64(seconds*1e9)) {
			return
		}
	}
}

// since returns the microseconds booked from a moment on, or in the last 1.6 s
// if that was longer ago.
func (b *bookings) since(from, now time.Duration) uint64 {
	first, last := bookingNumber(from), bookingNumber(now)
	if last >= bookingSlots {
		first = max(first, last-bookingSlots+1)
	}
	var sum uint64
	for n := first; n <= last; n++ {
		if v := b.slots[n%bookingSlots].Load(); v>>bookingBits == n&(1<<(64-bookingBits)-1) {
			sum += v & (1<<bookingBits - 1)
		}
	}
	return sum
}

// before returns the microseconds booked before a moment. What is booked since
// is later known from the total alone, for as long as since would tell it. One
// that is made at this very moment may count twice then.
func (b *bookings) before(from, now time.Duration) uint64 {
	total := b.total.Load()
	return total - b.since(from, now)
}

// after returns the seconds booked from a moment on, given what was booked
// before it.
func (b *bookings) after(from, now time.Duration, before uint64) float64 {
	if bookingNumber(now)-bookingNumber(from) < bookingSlots {
		return float64(b.total.Load()-before) / 1e6
	}
	return float64(b.since(from, now)) / 1e6
}

// bookingNumber numbers the slots of time.
func bookingNumber(at time.Duration) uint64 { return uint64(max(0, at) / bookingSlot) }

// queued returns the seconds until what was booked would be done, if nobody else
// sent anything.
func (b *bookings) queued(now time.Duration) float64 {
	return max(0, time.Duration(b.until.Load())-now).Seconds()
}
