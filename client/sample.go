package client

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/middleware"
)

// sampled is what a sample keeps of one call: hashes and lengths.
type sampled struct {
	begun  time.Time
	total  time.Duration
	group  uint64 // lot of the prompts that share more than their head
	root   uint64 // key of the conversation
	tokens int    // of prompt, 0 unknown
	where  string // the endpoint that served it
	base   int    // bytes of prompt before the text of messages
	marks  []mark // the prompt's prefixes, the shortest first
}

// mark is a boundary of a prompt.
type mark struct {
	hash  uint64
	bytes int
}

// sample keeps a bounded part of the latest calls. What is left out is left out
// by hash, whole groups of prompts that share more than a head at once, so
// that what is kept shares as much as all do (as SHARDS samples a cache's
// traffic: Waldspurger and others, 2015).
type sample struct {
	mu    sync.Mutex
	rate  float64 // part of the groups that are kept
	calls []sampled
	marks int     // of all calls
	seen  float64 // calls of the time that the sample covers, taken or not
}

const (
	// maxSampled and maxMarks bound the sample to some 4 MB; 4,096 calls put a
	// hit rate within two points.
	maxSampled = 4096
	maxMarks   = 1 << 17
	// maxPromptMarks bounds what is kept of one prompt, its last part: there
	// the next turn goes on.
	maxPromptMarks = 1024
	// Groups are left out when a sample that is full spans less than
	// sampleSpan, in which conversations have a few turns; and all are taken
	// again, from nothing, when it comes to span sampleStale, or when none was
	// taken for so long.
	sampleSpan  = 10 * time.Minute
	sampleStale = time.Hour
)

// add takes a call that has ended well.
func (s *sample) add(d *middleware.Done) {
	if len(d.Boundaries) == 0 || d.API == canon.Embeddings {
		return
	}
	head, base := 0, 0
	for i, b := range d.Boundaries {
		if b.Kind == canon.Tools || b.Kind == canon.HeadFields {
			base = b.Offset
		}
		if b.Hash == d.Head {
			head = i + 1
		}
	}
	first := d.Boundaries[min(head, len(d.Boundaries)-1)]
	one := sampled{begun: d.Start, total: d.Total, group: groupOf(first.Hash), tokens: max(0, d.PromptTokens), base: base, where: d.Endpoint}
	_, one.root = (&affinity.Request{Root: d.Root, Session: d.Session, Tenant: d.Tenant, CacheKey: d.CacheKey}).Keys()

	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.calls); n == 0 || s.rate < 1 && one.begun.Sub(s.calls[n-1].begun) > sampleStale {
		s.restart()
	}
	s.seen++
	if !takes(one.group, s.rate) {
		return
	}
	kept := d.Boundaries[max(0, len(d.Boundaries)-maxPromptMarks):]
	one.marks = make([]mark, len(kept))
	for i, b := range kept {
		one.marks[i] = mark{b.Hash, b.Offset}
	}
	s.calls = append(s.calls, one)
	s.marks += len(one.marks)
	for len(s.calls) > maxSampled || s.marks > maxMarks {
		s.thin()
	}
}

// groupOf spreads hashes evenly, apart from every other use of them.
func groupOf(hash uint64) uint64 {
	var words [16]byte
	copy(words[:8], "pw1:smpl")
	binary.LittleEndian.PutUint64(words[8:], hash)
	return xxhash.Sum64(words[:])
}

func takes(group uint64, rate float64) bool { return float64(group>>11)/(1<<53) < rate }

// thin makes room: by leaving out groups while the sample spans little time, by
// forgetting the oldest quarter otherwise.
func (s *sample) thin() {
	span := s.calls[len(s.calls)-1].begun.Sub(s.calls[0].begun)
	switch {
	case span > sampleStale && s.rate < 1:
		s.restart()
		return
	case span >= sampleSpan || !s.halve():
		all := len(s.calls)
		s.calls = slices.Delete(s.calls, 0, (all+3)/4)
		s.seen = s.seen * float64(len(s.calls)) / float64(all)
	}
	s.marks = 0
	for i := range s.calls {
		s.marks += len(s.calls[i].marks)
	}
}

// halve leaves out half of the groups, unless a few have so many of the calls
// that less than a quarter would be left: traffic that is a single group, such
// as that of one template, would leave nothing for good.
func (s *sample) halve() bool {
	rate, left := s.rate/2, 0
	for i := range s.calls {
		if takes(s.calls[i].group, rate) {
			left++
		}
	}
	if left < len(s.calls)/4 || rate < 1./(1<<20) {
		return false
	}
	s.rate = rate
	s.calls = slices.DeleteFunc(s.calls, func(c sampled) bool { return !takes(c.group, rate) })
	return true
}

// restart takes all groups again, from nothing.
func (s *sample) restart() { s.rate, s.calls, s.marks, s.seen = 1, nil, 0, 0 }

// copy returns the sampled calls in the order in which they began, and which
// part they are of those seen meanwhile.
func (s *sample) copy() (calls []sampled, part float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls = slices.Clone(s.calls)
	slices.SortStableFunc(calls, func(a, b sampled) int { return cmp.Compare(a.begun.UnixNano(), b.begun.UnixNano()) })
	return calls, float64(len(calls)) / max(s.seen, 1)
}
