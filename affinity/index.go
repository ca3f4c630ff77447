package affinity

import (
	"sync/atomic"
	"time"
)

// index remembers which endpoints this router has sent which prefixes to. It is
// a hash table of fixed size without locks: an entry is two words, one cache
// line holds four entries, and a prefix that finds its line full takes the
// place of the one that was not used for longest. Two goroutines that write the
// same line at once may lose one of the two entries, and a reader may see the
// endpoints of another prefix in the moment in which an entry is replaced; a
// guess of where something is cached can bear both.
type index struct {
	lines []line
	shift uint // the hash's upper bits choose the line
}

type line [4]entry

// entry: the lower 40 bits of the hash and the second of last use; and up to
// four endpoints of 16 bits: the number and one more, since 0 is an empty place,
// and whether the endpoint has served the prefix or was only sent it.
type entry struct{ key, where atomic.Uint64 }

const (
	stampBits = 24 // seconds: half a year
	stampMask = 1<<stampBits - 1
	served    = 1 << 15
)

// maxNumber keeps the numbers of endpoints clear of served and of everywhere.
const maxNumber = served - 2

// everywhere marks a prefix that more than four endpoints have had: a system
// prompt, most likely. It says nothing about where to go.
const everywhere = ^uint64(0)

// defaultIndexBytes holds two million prefixes: at 25 to a prompt, the last
// 80,000 conversations.
const defaultIndexBytes = 32 << 20

// maxIndexBytes is more prefixes than any fleet's memory can hold.
const maxIndexBytes = 64 << 30

func newIndex(bytes int) *index {
	x := &index{shift: 64}
	n := 1
	for n <= bytes/128 { // room for twice as many
		n *= 2
		x.shift--
	}
	x.lines = make([]line, n)
	return x
}

// place returns the number of the line in which a prefix is, or would be.
func (x *index) place(hash uint64) uint32 {
	// The lower bits are the tag and must not also choose the line.
	return uint32(mix(hash) >> x.shift & uint64(len(x.lines)-1))
}

func (x *index) line(hash uint64) *line { return &x.lines[x.place(hash)] }

// find returns the prefix's entry, nil if there is none.
func (l *line) find(hash uint64) *entry {
	tag := hash << stampBits
	for i := range l {
		switch k := l[i].key.Load(); {
		case k == 0:
			return nil // lines fill from the front
		case k&^stampMask == tag:
			return &l[i]
		}
	}
	return nil
}

// get returns the endpoints that have had a prefix, 0 for none.
func (l *line) get(hash uint64) uint64 {
	if e := l.find(hash); e != nil {
		return e.where.Load()
	}
	return 0
}

// put notes that an endpoint is being sent a prefix.
func (l *line) put(hash uint64, endpoint uint16, now time.Duration) {
	tag := hash << stampBits
	stamp := uint64(now/time.Second)&stampMask | 1 // never a key of 0
	if e := l.find(hash); e != nil {
		// A store takes the line from all other processors.
		where := e.where.Load()
		if with := joined(where, endpoint, 0); with != where {
			e.where.Store(with)
		}
		if e.key.Load() != tag|stamp {
			e.key.Store(tag | stamp)
		}
		return
	}
	oldest, age := 0, int32(0)
	for i := range l {
		k := l[i].key.Load()
		if k == 0 {
			oldest = i
			break
		}
		// Below 0 if another goroutine is a second ahead.
		if a := int32(stamp-k) << (32 - stampBits); a > age {
			oldest, age = i, a
		}
	}
	e := &l[oldest]
	e.where.Store(0) // nobody may see the old endpoints under the new key
	e.key.Store(tag | stamp)
	e.where.Store(joined(0, endpoint, 0))
}

// only notes that of all endpoints just one has a prefix.
func (l *line) only(hash uint64, endpoint uint16) {
	if e := l.find(hash); e != nil {
		e.where.Store(joined(0, endpoint, served))
	}
}

// confirm notes that the endpoint of a pick has served its prompt. Where a prefix
// is known to be served, the shorter ones are as well. What another pick has taken
// back is there again.
func (x *index) confirm(p *plan, prompt []Boundary) {
	for i := len(prompt) - 1; i >= 0; i-- {
		hash := prompt[i].Hash ^ p.own
		if e := x.line(hash).find(hash); e != nil {
			where := e.where.Load()
			with := joined(where, p.number, served)
			if with == where {
				return
			}
			e.where.CompareAndSwap(where, with)
		}
	}
}

// forget takes back what a pick has noted of a prompt that came to nothing, but
// not what the endpoint has served to others since. Those that are still under way
// there confirm it themselves.
func (x *index) forget(p *plan, prompt []Boundary) {
	for i := len(prompt) - 1; i >= 0 && prompt[i].Bytes > int(p.have); i-- {
		hash := prompt[i].Hash ^ p.own
		if e := x.line(hash).find(hash); e != nil {
			where := e.where.Load()
			e.where.CompareAndSwap(where, without(where, p.number))
		}
	}
}

// joined adds an endpoint to a word of endpoints, with the mark served or without
// a new one.
func joined(word uint64, endpoint, mark uint16) uint64 {
	for at := 0; at < 64 && word>>at != 0; at += 16 {
		if uint16(word>>at)&^served == endpoint+1 {
			return word | uint64(mark)<<at
		}
	}
	if word>>48 != 0 {
		return everywhere
	}
	return word<<16 | uint64(endpoint+1|mark)
}

// without takes an endpoint that has served nothing out of a word of endpoints.
// Everywhere stays what it is, since it names none.
func without(word uint64, endpoint uint16) (rest uint64) {
	if word == everywhere {
		return word
	}
	for at := 48; at >= 0; at -= 16 {
		if n := word >> at & 0xffff; n != 0 && n != uint64(endpoint)+1 {
			rest = rest<<16 | n
		}
	}
	return rest
}
