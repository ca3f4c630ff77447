package vllmsim

import (
	"math"
	"slices"
	"time"
)

// load is what a step has to compute.
type load struct {
	prefillTokens, prefillPairs float64
	sequences, context          int // of the sequences that decode
}

// begin plans and starts a step at now. It does nothing when there is nothing
// to run.
func (e *Engine) begin(now time.Duration) {
	e.step.busy = false
	budget := e.cfg.MaxBatchTokens
	var l load
	preempted := false
	for i := 0; i < len(e.running); i++ {
		s := e.running[i]
		n := min(s.known()-s.computed, budget)
		s.planned = 0
		for n > 0 && !e.grow(s, s.computed+n) {
			victim := e.running[len(e.running)-1]
			e.preempt(victim)
			preempted = true
			if victim == s {
				n = 0
			}
		}
		if n > 0 {
			e.plan(s, n, &l)
			budget -= n
		}
	}
	for !preempted && budget > 0 && len(e.waiting) > 0 && len(e.running) < e.cfg.MaxSequences && e.waiting[0].arrived <= now {
		s := e.waiting[0]
		if !e.admit(s) {
			break
		}
		e.waiting = e.waiting[1:]
		e.running = append(e.running, s)
		n := min(s.known()-s.computed, budget)
		e.grow(s, s.computed+n) // admit has seen that there is room
		e.plan(s, n, &l)
		budget -= n
	}
	e.step.waiting = len(e.waiting)
	if len(e.running) == 0 {
		e.publishGauges()
		return
	}
	passes := 1
	if l.prefillTokens == 0 {
		passes = e.stretch()
	}
	e.step.busy, e.step.start, e.step.passes = true, now, passes
	e.step.end = now + time.Duration(passes)*e.duration(l)
}

// plan gives s its tokens of this step. Full blocks become visible now, not
// when they are computed: as in vLLM, whoever reads them runs in this step
// after them or in a later one.
func (e *Engine) plan(s *sequence, n int, l *load) {
	if s.decoding() {
		l.sequences++
		l.context += s.known()
	} else {
		l.prefillTokens += float64(n)
		l.prefillPairs += float64(n) * (float64(s.computed) + float64(n)/2)
	}
	s.planned = n
	for s.published < len(s.hashes) && (s.published+1)*e.cfg.BlockTokens <= s.computed+n {
		e.pool.publish(s.blocks[s.published], s.hashes[s.published])
		s.published++
	}
}

// admit takes the cached blocks of a waiting sequence if the rest of its prompt
// fits as well.
func (e *Engine) admit(s *sequence) bool {
	var hits []uint64
	if s.read {
		hits = e.readable(s.hashes, s.known())
	}
	held, idle := e.pool.match(hits)
	whole := s.known()
	if e.cfg.ReserveOutput {
		whole = s.prompt + s.output
	}
	if e.blocksOf(whole)-held+idle > e.pool.free {
		return false
	}
	for _, h := range hits[:held] {
		s.blocks = append(s.blocks, e.pool.acquire(h))
	}
	s.computed, s.published = held*e.cfg.BlockTokens, held
	if e.cfg.ReserveOutput {
		e.grow(s, whole)
	}
	if !s.admitted { // a preempted sequence was counted the first time
		s.admitted = true
		s.cached = s.computed
		e.stats.PrefixQueries += uint64(s.prompt)
		e.stats.PrefixHits += uint64(s.computed)
	}
	return true
}

// grow makes s hold blocks for its first n tokens; false, with nothing changed,
// when not enough are free.
func (e *Engine) grow(s *sequence, n int) bool {
	need := e.blocksOf(n) - len(s.blocks)
	if need > e.pool.free {
		return false
	}
	for range need {
		s.blocks = append(s.blocks, e.pool.allocate())
	}
	return true
}

func (e *Engine) blocksOf(tokens int) int {
	return (tokens + e.cfg.BlockTokens - 1) / e.cfg.BlockTokens
}

// preempt puts the youngest running sequence back to the head of the queue. It
// keeps the tokens it has generated but must compute everything again that is
// not in the cache by then.
func (e *Engine) preempt(s *sequence) {
	e.running = e.running[:len(e.running)-1]
	e.pool.release(s.blocks)
	s.blocks, s.computed, s.published, s.planned = s.blocks[:0], 0, 0, 0
	e.waiting = slices.Insert(e.waiting, 0, s)
	e.stats.Preemptions++
}

// stretch returns how many passes can run as one: every sequence decodes, none
// ends within, and blocks suffice.
func (e *Engine) stretch() int {
	k := e.cfg.DecodeStretch
	for _, s := range e.running {
		k = min(k, s.output-s.generated)
	}
	if k <= 1 {
		return 1
	}
	need := 0
	for _, s := range e.running {
		need += max(0, e.blocksOf(s.computed+k)-len(s.blocks))
	}
	if need > e.pool.free {
		return 1
	}
	for _, s := range e.running {
		e.grow(s, s.computed+k)
	}
	return k
}

func (e *Engine) duration(l load) time.Duration {
	c := &e.cfg
	t := c.DecodeStep + time.Duration(l.sequences)*c.DecodeSequence + time.Duration(l.context)*c.DecodeContextToken
	if l.prefillTokens > 0 {
		t += c.PrefillStep
	}
	s := t.Seconds() + l.prefillTokens/c.PrefillTokensPerSecond + l.prefillPairs/c.PrefillPairsPerSecond
	return time.Duration(math.Ceil(s * e.slow / c.TimeScale * 1e9))
}

// finish ends the step under way at its time.
func (e *Engine) finish(at time.Duration, emit func(Event)) {
	kept := e.running[:0]
	for _, s := range e.running {
		if s.planned == 0 {
			kept = append(kept, s)
			continue
		}
		if s.decoding() {
			s.computed += e.step.passes
		} else {
			s.computed += s.planned
		}
		s.planned = 0
		if s.computed < s.known() {
			kept = append(kept, s)
			continue
		}
		ev := Event{ID: s.id, At: at, Cached: s.cached, First: s.generated == 0}
		if s.output > 0 {
			ev.Tokens = e.step.passes
			s.generated += ev.Tokens
		}
		ev.Generated = s.generated
		ev.Done = s.generated >= s.output
		e.account(s, &ev)
		if ev.Done {
			e.publishTail(s)
			e.pool.release(s.blocks)
			delete(e.live, s.id)
		} else {
			kept = append(kept, s)
		}
		emit(ev)
	}
	clear(e.running[len(kept):])
	e.running = kept
	e.step.busy = false
	e.publishGauges()
}

// publishTail makes blocks visible that a stretch of passes has filled since
// the last plan.
func (e *Engine) publishTail(s *sequence) {
	for s.published < len(s.hashes) && (s.published+1)*e.cfg.BlockTokens <= s.computed {
		e.pool.publish(s.blocks[s.published], s.hashes[s.published])
		s.published++
	}
}
