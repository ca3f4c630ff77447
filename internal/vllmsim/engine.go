package vllmsim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// ErrQueueFull reports that Config.MaxQueue sequences run or wait already.
var ErrQueueFull = errors.New("vllmsim: queue full")

// LengthError reports a prompt that leaves no room for a single output token,
// or that is empty.
type LengthError struct {
	PromptTokens, MaxModelLen int
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("vllmsim: prompt of %d tokens, but 1 to %d are possible", e.PromptTokens, e.MaxModelLen-1)
}

// ID names a submitted sequence of one Engine.
type ID uint64

// Request is one sequence to compute. It is given as token ids or, where only
// traces of hashes exist, as precomputed block hashes and a length.
type Request struct {
	Tokens       []uint32 // the prompt, which its output may follow (see Config.ReuseOutput); nil when Hashes says all
	PromptTokens int      // length of the prompt; 0: len(Tokens)
	OutputTokens int      // tokens it will generate; cut at MaxModelLen; 0: it ends with its prefill (pooling models)
	Hashes       []uint64 // one chained hash for each full block of the prompt, which those of the output may follow; nil: computed from Tokens, Adapter and CacheSalt. No hash is zero; not to be modified while the sequence lives
	Adapter      string   // enters the hashes of Tokens
	CacheSalt    string   // enters the hashes of Tokens
	NoCacheRead  bool     // computes everything although blocks are held (vLLM: prompt_logprobs)
	Cut          bool     // the output ends at the caller's limit and not by itself: counted as "length" instead of "stop"
}

// Event is what one step did for one sequence.
type Event struct {
	ID        ID
	At        time.Duration // when the step ended
	Tokens    int           // generated in this step
	Generated int           // generated so far
	Cached    int           // prompt tokens that came from the cache
	First     bool          // this is the first output
	Done      bool          // nothing more will come
}

// Engine is the scheduler and the cache of one instance in virtual time: a
// first-come-first-served queue, continuous batching with chunked prefill under
// a token budget, a paged prefix cache, and preemption of the youngest sequence
// when blocks run out. Times are durations since a moment of the caller's
// choosing and must not go backwards from call to call.
//
// The shape of a step follows vLLM's V1 scheduler: running sequences first, in
// order of admission, each with as many tokens as it still needs and the budget
// allows; then waiting ones, unless something was preempted. A sequence is
// admitted when blocks for its whole prompt are free.
//
// An Engine is not safe for concurrent use.
type Engine struct {
	cfg     Config
	pool    *blockPool
	now     time.Duration
	lastID  ID
	live    map[ID]*sequence
	waiting []*sequence
	running []*sequence
	slow    float64
	step    step
	stats   Counters
}

// sequence is a request on its way. known() tokens have a value, the first
// computed of them are in the cache.
type sequence struct {
	id        ID
	arrived   time.Duration
	prompt    int
	output    int
	generated int
	computed  int
	cached    int
	hashes    []uint64
	blocks    []int32
	published int
	planned   int // tokens in the current step
	admitted  bool
	read      bool
	cut       bool
}

func (s *sequence) known() int     { return s.prompt + s.generated }
func (s *sequence) decoding() bool { return s.generated > 0 && s.computed == s.known()-1 }

// step is the forward pass (or the stretch of equal ones) that is under way.
type step struct {
	busy       bool
	start, end time.Duration
	passes     int
	waiting    int // left in the queue when it was planned
}

// NewEngine returns an idle engine with an empty cache.
func NewEngine(cfg Config) (*Engine, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	return newEngine(cfg), nil
}

func newEngine(cfg Config) *Engine {
	e := &Engine{cfg: cfg, pool: newBlockPool(cfg.CacheTokens / cfg.BlockTokens), live: map[ID]*sequence{}, slow: 1}
	e.stats.TTFT = newHistogram(ttftBounds)
	e.stats.Latency = newHistogram(latencyBounds)
	return e
}

// Config returns the configuration with its defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Submit queues a request at now. An idle engine starts on it at once. The
// error is ErrQueueFull or a *LengthError.
//
// Call Advance(now) first: steps that end before now are then over, and the
// request is considered for the next one.
func (e *Engine) Submit(now time.Duration, r Request) (ID, error) {
	n := r.PromptTokens
	if n == 0 {
		n = len(r.Tokens)
	}
	if n < 1 || n >= e.cfg.MaxModelLen {
		return 0, &LengthError{PromptTokens: n, MaxModelLen: e.cfg.MaxModelLen}
	}
	if e.cfg.MaxQueue > 0 && len(e.waiting)+len(e.running) >= e.cfg.MaxQueue {
		e.stats.Rejected++
		return 0, ErrQueueFull
	}
	e.lastID++
	s := &sequence{id: e.lastID, arrived: now, prompt: n, hashes: r.Hashes, read: !r.NoCacheRead, cut: r.Cut}
	s.output = min(max(r.OutputTokens, 0), e.cfg.MaxModelLen-n)
	if s.output < r.OutputTokens {
		s.cut = true
	}
	switch {
	case e.cfg.NoPrefixCaching:
		s.hashes = nil
	case s.hashes == nil && e.cfg.ReuseOutput:
		s.hashes = BlockHashes(nil, ChainRoot(r.Adapter, r.CacheSalt), r.Tokens, e.cfg.BlockTokens)
	case s.hashes == nil:
		s.hashes = BlockHashes(nil, ChainRoot(r.Adapter, r.CacheSalt), r.Tokens[:min(n, len(r.Tokens))], e.cfg.BlockTokens)
	case !e.cfg.ReuseOutput:
		s.hashes = s.hashes[:min(len(s.hashes), n/e.cfg.BlockTokens)]
	}
	e.live[s.id] = s
	e.waiting = append(e.waiting, s)
	e.stats.Requests++
	if !e.step.busy && len(e.waiting) == 1 {
		e.begin(max(now, e.now))
	} else {
		e.interrupt(now)
	}
	return s.id, nil
}

// Cancel forgets a sequence at now, wherever it is, and frees its blocks; the
// step under way takes as long as it would have. It reports whether the
// sequence was still there.
func (e *Engine) Cancel(now time.Duration, id ID) bool {
	s, ok := e.live[id]
	if !ok {
		return false
	}
	delete(e.live, id)
	if i := slices.Index(e.waiting, s); i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
	} else {
		i := slices.Index(e.running, s)
		e.running = slices.Delete(e.running, i, i+1)
		e.pool.release(s.blocks)
		e.interrupt(now)
	}
	e.stats.Aborted++
	return true
}

// Next returns when the engine next has something to do; false while it is idle.
func (e *Engine) Next() (time.Duration, bool) {
	switch {
	case e.step.busy:
		return e.step.end, true
	case len(e.waiting) > 0:
		return max(e.now, e.waiting[0].arrived), true
	}
	return 0, false
}

// Advance runs every step that ends at or before now and starts the following
// ones; emit gets their events in order. emit must not call the engine.
func (e *Engine) Advance(now time.Duration, emit func(Event)) {
	for {
		at, ok := e.Next()
		if !ok || at > now {
			e.now = max(e.now, now)
			return
		}
		e.now = at
		if e.step.busy {
			e.finish(at, emit)
		}
		e.begin(at)
	}
}

// SetSlow makes every step from the next one on take factor times as long.
// Factors below 1 count as 1.
func (e *Engine) SetSlow(factor float64) { e.slow = max(factor, 1) }

// ResetCache forgets every prefix that no running sequence holds.
func (e *Engine) ResetCache() { e.pool.reset() }

// Running returns how many sequences are being computed now.
func (e *Engine) Running() int { return len(e.running) }

// Waiting returns how many sequences are queued now.
func (e *Engine) Waiting() int { return len(e.waiting) }

// CachedTokens returns how many leading tokens of a prompt with these block
// hashes and this length a request would find in the cache now: whole blocks,
// and never the last token, which must be computed to have an output.
func (e *Engine) CachedTokens(hashes []uint64, promptTokens int) int {
	held, _ := e.pool.match(e.readable(hashes, promptTokens))
	return held * e.cfg.BlockTokens
}

func (e *Engine) readable(hashes []uint64, tokens int) []uint64 {
	return hashes[:min(len(hashes), max(0, tokens-1)/e.cfg.BlockTokens)]
}

// interrupt shortens a stretch of decode passes to the one running at now.
func (e *Engine) interrupt(now time.Duration) {
	st := &e.step
	if !st.busy || st.passes == 1 || now >= st.end {
		return
	}
	each := (st.end - st.start) / time.Duration(st.passes)
	k := max(1, int(math.Ceil(float64(now-st.start)/float64(max(each, 1)))))
	if k < st.passes {
		st.passes, st.end = k, st.start+time.Duration(k)*each
	}
}
