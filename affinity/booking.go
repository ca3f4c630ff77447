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

// ahead returns the seconds that are left at now of what an engine had to do at
// the moment at, and of what was booked since a little before that: what comes
// while an engine is idle does not make up for its idleness (Lindley's recursion
// for the wait in a queue, slot by slot). The moment may be at most 1.3 s ago.
func (b *bookings) ahead(wait float64, at, now time.Duration) float64 {
	first, last := bookingNumber(at-seenAfter), bookingNumber(now)
	if last >= bookingSlots {
		first = max(first, last-bookingSlots+1)
	}
	for n := first; n <= last; n++ {
		if v := b.slots[n%bookingSlots].Load(); v>>bookingBits == n&(1<<(64-bookingBits)-1) {
			wait += float64(v&(1<<bookingBits-1)) / 1e6
		}
		from, to := time.Duration(n)*bookingSlot, time.Duration(n+1)*bookingSlot
		if from, to = max(from, at), min(to, now); to > from {
			wait = max(0, wait-(to-from).Seconds())
		}
	}
	return wait
}

// bookingNumber numbers the slots of time.
func bookingNumber(at time.Duration) uint64 { return uint64(max(0, at) / bookingSlot) }

// queued returns the seconds until what was booked would be done, if nobody else
// sent anything.
func (b *bookings) queued(now time.Duration) float64 {
	return max(0, time.Duration(b.until.Load())-now).Seconds()
}
