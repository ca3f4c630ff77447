package affinity

import (
	"math/bits"
	"sync"
)

// Fixed-point binary logarithms for weighted rendezvous hashing. The values
// are unsigned with logFraction bits after the point.
const (
	logFraction = 57 // leaves 7 bits before the point, for logarithms up to 64
	logIndex    = 10 // bits of the mantissa that choose the table's entry
)

type logs [1<<logIndex + 1]uint64

// logTable holds log2(1 + i/1024) for i in 0..1024. Between entries a straight
// line is off by at most 1.7e-7 (a bound on the share of keys that a weight is
// off by). It is computed with integers only, once, when the first weighted
// fleet appears: 0.2 ms that fleets of equal weights do not spend.
var logTable = sync.OnceValue(func() *logs {
	t := new(logs)
	for i := range t[:1<<logIndex] {
		t[i] = log2Mantissa(1<<63 | uint64(i)<<(63-logIndex))
	}
	t[1<<logIndex] = 1 << logFraction
	return t
})

// log2Mantissa returns log2 of m/2^63, for m in [2^63, 2^64), bit by bit:
// squaring a number doubles its logarithm, and whenever the square reaches 2
// the next bit is 1.
func log2Mantissa(m uint64) uint64 {
	var l uint64
	for range logFraction {
		hi, lo := bits.Mul64(m, m)
		l <<= 1
		if hi>>63 == 1 {
			l |= 1
			m = hi
		} else {
			m = hi<<1 | lo>>63
		}
	}
	return l
}

// negLog2 returns -log2((x+1)/2^64), falling as x rises, in [0, 64].
func (t *logs) negLog2(x uint64) uint64 {
	if x++; x == 0 {
		return 0 // -log2(1)
	}
	zeros := bits.LeadingZeros64(x)
	m := x << zeros // the mantissa, with its leading 1 at bit 63
	i := m << 1 >> (64 - logIndex)
	// The rest of the mantissa, as a 64-bit fraction of one step of the table.
	step, _ := bits.Mul64(t[i+1]-t[i], m<<(1+logIndex))
	return uint64(zeros+1)<<logFraction - (t[i] + step)
}
