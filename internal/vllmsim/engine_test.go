package vllmsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// small is an engine whose steps take 10 ms and 1 ms for each prompt token, so
// that times can be checked in the head.
func small(t *testing.T, change func(*Config)) *Engine {
	cfg := Config{
		BlockTokens: 16, CacheTokens: 64 * 16, MaxBatchTokens: 100, MaxSequences: 4,
		PrefillTokensPerSecond: 1000, PrefillPairsPerSecond: 1e18,
		DecodeStep: 10 * time.Millisecond, DecodeSequence: 1, DecodeContextToken: 1,
	}
	if change != nil {
		change(&cfg)
	}
	e, err := NewEngine(cfg)
	require.NoError(t, err)
	return e
}

// numbers returns n token ids that start at from: ranges that overlap share
// tokens only where they start alike.
func numbers(from, n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(from + i)
	}
	return tokens
}

// finish runs the engine until it is idle and returns what each sequence saw
// last, and when it had its first output.
func finish(e *Engine) (last map[ID]Event, first map[ID]time.Duration) {
	last, first = map[ID]Event{}, map[ID]time.Duration{}
	e.Advance(e.now+1000*time.Hour, func(ev Event) {
		last[ev.ID] = ev
		if ev.First {
			first[ev.ID] = ev.At
		}
	})
	return last, first
}

// one runs a single request to its end and returns its cached tokens.
func one(t *testing.T, e *Engine, r Request) int {
	now := e.now
	id, err := e.Submit(now, r)
	require.NoError(t, err)
	last, _ := finish(e)
	require.True(t, last[id].Done)
	require.Equal(t, r.OutputTokens, last[id].Generated)
	return last[id].Cached
}

func TestOnlyFullBlocksBeforeTheLastTokenHit(t *testing.T) {
	for _, c := range []struct{ tokens, want int }{{1, 0}, {15, 0}, {16, 0}, {17, 16}, {31, 16}, {32, 16}, {33, 32}, {40, 32}} {
		e := small(t, nil)
		r := Request{Tokens: numbers(0, c.tokens), OutputTokens: 1}
		require.Zero(t, one(t, e, r), "%d tokens, empty cache", c.tokens)
		require.Equal(t, c.want, one(t, e, r), "%d tokens again", c.tokens)
		got := e.Counters()
		require.EqualValues(t, 2*c.tokens, got.PromptTokens)
		require.EqualValues(t, 2*c.tokens, got.PrefixQueries)
		require.EqualValues(t, c.want, got.PrefixHits)
		require.EqualValues(t, c.want, got.CachedTokens)
		require.EqualValues(t, 2, got.GenerationTokens)
	}
}

func TestPromptThatPartsLaterHitsUpToThere(t *testing.T) {
	e := small(t, nil)
	a := numbers(0, 64)
	one(t, e, Request{Tokens: a, OutputTokens: 1})
	b := append(numbers(0, 40), numbers(1000, 40)...)
	require.Equal(t, 32, one(t, e, Request{Tokens: b, OutputTokens: 1}))
	c := append(numbers(1, 1), a...)
	require.Zero(t, one(t, e, Request{Tokens: c, OutputTokens: 1}), "the same text at another place is another prefix")
}

func TestAdapterAndSaltKeepCachesApart(t *testing.T) {
	e := small(t, nil)
	r := Request{Tokens: numbers(0, 40), OutputTokens: 1}
	one(t, e, r)
	for _, x := range []Request{{Adapter: "a"}, {CacheSalt: "a"}, {Adapter: "a", CacheSalt: "a"}, {Adapter: "aa"}} {
		x.Tokens, x.OutputTokens = r.Tokens, 1
		require.Zero(t, one(t, e, x), "%+v", x)
		require.Equal(t, 32, one(t, e, x), "%+v", x)
	}
	require.Equal(t, 32, one(t, e, r))
}

func TestHashesInsteadOfTokens(t *testing.T) {
	e := small(t, nil)
	r := Request{PromptTokens: 40, Hashes: []uint64{7, 8}, OutputTokens: 3}
	require.Zero(t, one(t, e, r))
	require.Equal(t, 32, one(t, e, r))
	require.Equal(t, 16, one(t, e, Request{PromptTokens: 33, Hashes: []uint64{7, 9}, OutputTokens: 1}))
	require.Equal(t, 32, e.CachedTokens([]uint64{7, 8}, 40))
	require.Equal(t, 16, e.CachedTokens([]uint64{7, 8}, 32))
}

func TestNoCacheReadAndNoPrefixCaching(t *testing.T) {
	e := small(t, nil)
	r := Request{Tokens: numbers(0, 40), OutputTokens: 1}
	one(t, e, r)
	r.NoCacheRead = true
	require.Zero(t, one(t, e, r))
	off := small(t, func(c *Config) { c.NoPrefixCaching = true })
	r.NoCacheRead = false
	one(t, off, r)
	require.Zero(t, one(t, off, r))
}

func TestGeneratedBlocksAreReusedOnlyWhenAsked(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		e := small(t, func(c *Config) { c.ReuseOutput = reuse })
		turn := numbers(0, 60) // 20 of prompt, 40 of answer
		one(t, e, Request{Tokens: turn, PromptTokens: 20, OutputTokens: 40})
		want := 16
		if reuse {
			want = 48 // the last token generated was never computed
		}
		require.Equal(t, want, one(t, e, Request{Tokens: numbers(0, 70), OutputTokens: 1}))
	}
}

func TestLeastRecentlyUsedGoesFirstAndItsEndBeforeItsStart(t *testing.T) {
	e := small(t, func(c *Config) { c.CacheTokens = 8 * 16; c.MaxModelLen = 8 * 16 })
	a := Request{PromptTokens: 48, Hashes: []uint64{1, 2, 3}}
	b := Request{PromptTokens: 48, Hashes: []uint64{11, 12, 13}}
	one(t, e, a)
	one(t, e, b)
	one(t, e, a) // now b is the older one
	one(t, e, Request{PromptTokens: 64, Hashes: []uint64{21, 22, 23, 24}})
	held := func(h ...uint64) int { n, _ := e.pool.match(h); return n }
	require.Equal(t, 3, held(1, 2, 3))
	require.Equal(t, 1, held(11, 12, 13), "two blocks had to go: the last two of b")
	require.Equal(t, 4, held(21, 22, 23, 24))
}

func TestBlocksInUseAreNotEvicted(t *testing.T) {
	e := small(t, func(c *Config) { c.CacheTokens = 8 * 16; c.MaxModelLen = 8 * 16 })
	long, err := e.Submit(0, Request{PromptTokens: 64, Hashes: []uint64{1, 2, 3, 4}, OutputTokens: 16})
	require.NoError(t, err)
	other, err := e.Submit(0, Request{PromptTokens: 64, Hashes: []uint64{5, 6, 7, 8}, OutputTokens: 1})
	require.NoError(t, err)
	last, first := finish(e)
	require.Less(t, last[long].At, first[other], "the second does not fit beside the first and must wait")
	require.Zero(t, e.Counters().Preemptions)
}

func TestTimesOfChunkedPrefill(t *testing.T) {
	e := small(t, nil)
	id, err := e.Submit(time.Second, Request{Tokens: numbers(0, 250), OutputTokens: 3})
	require.NoError(t, err)
	var at []time.Duration
	e.Advance(time.Hour, func(ev Event) { at = append(at, ev.At-time.Second) })
	// Chunks of 100, 100 and 50 tokens, then two steps of decoding.
	want := []time.Duration{280, 290, 300}
	require.Len(t, at, 3)
	for i := range want {
		require.InDelta(t, want[i]*time.Millisecond, at[i], float64(10*time.Microsecond))
	}
	require.NotZero(t, id)
	require.EqualValues(t, 1, e.Counters().TTFT.Count)
}

func TestDecodingSharesTheStepWithPrefill(t *testing.T) {
	e := small(t, nil)
	a, _ := e.Submit(0, Request{Tokens: numbers(0, 50), OutputTokens: 10})
	b, _ := e.Submit(0, Request{Tokens: numbers(500, 199), OutputTokens: 1})
	events := map[ID][]time.Duration{}
	e.Advance(time.Hour, func(ev Event) { events[ev.ID] = append(events[ev.ID], ev.At.Round(time.Millisecond)) })
	// Step 1: 50 tokens of a. Step 2: one token of a, 99 of b. Step 3: one of a, 99 of b. Step 4: one of a, the last of b.
	require.Equal(t, []time.Duration{60e6, 169e6, 278e6, 289e6}, events[a][:4])
	require.Equal(t, []time.Duration{289e6}, events[b])
}

func TestPromptsInOneStepShareBlocks(t *testing.T) {
	e := small(t, nil)
	e.Submit(0, Request{Tokens: numbers(900, 10), OutputTokens: 1}) // keeps the engine busy
	a, _ := e.Submit(0, Request{Tokens: numbers(0, 40), OutputTokens: 1})
	b, _ := e.Submit(0, Request{Tokens: numbers(0, 40), OutputTokens: 1})
	last, first := finish(e)
	require.Equal(t, first[a], first[b])
	require.Zero(t, last[a].Cached)
	require.Equal(t, 32, last[b].Cached)
}

func TestFirstComeFirstServed(t *testing.T) {
	e := small(t, func(c *Config) { c.MaxSequences = 2 })
	var ids []ID
	for i := range 5 {
		id, err := e.Submit(0, Request{Tokens: numbers(100*i, 10), OutputTokens: 4})
		require.NoError(t, err)
		ids = append(ids, id)
	}
	e.Advance(50*time.Millisecond, func(Event) {})
	require.Equal(t, 2, e.Running())
	require.Equal(t, 3, e.Waiting())
	_, first := finish(e)
	for i := 1; i < len(ids); i++ {
		require.LessOrEqual(t, first[ids[i-1]], first[ids[i]])
	}
}

func TestPreemptionTakesTheYoungestAndLosesNothing(t *testing.T) {
	e := small(t, func(c *Config) { c.CacheTokens = 6 * 16; c.MaxModelLen = 6 * 16 })
	a, _ := e.Submit(0, Request{Tokens: numbers(0, 32), OutputTokens: 40})
	b, _ := e.Submit(0, Request{Tokens: numbers(500, 32), OutputTokens: 40})
	last, first := finish(e)
	require.EqualValues(t, 1, e.Counters().Preemptions)
	require.Equal(t, 40, last[a].Generated)
	require.Equal(t, 40, last[b].Generated)
	require.Less(t, last[a].At, last[b].At)
	require.Less(t, first[b], last[a].At, "b had begun before it was preempted")
	c := e.Counters()
	require.EqualValues(t, 64, c.PrefixQueries, "a preempted prompt counts once")
	require.EqualValues(t, 80, c.GenerationTokens)
	require.Zero(t, c.UsedBlocks)
}

func TestPreemptedGoesBeforeWhatWaits(t *testing.T) {
	e := small(t, func(c *Config) { c.CacheTokens = 6 * 16; c.MaxModelLen = 6 * 16 })
	e.Submit(0, Request{Tokens: numbers(0, 32), OutputTokens: 40})
	b, _ := e.Submit(0, Request{Tokens: numbers(500, 32), OutputTokens: 40})
	e.Advance(50*time.Millisecond, func(Event) {})
	c, _ := e.Submit(50*time.Millisecond, Request{Tokens: numbers(900, 50), OutputTokens: 1})
	last, first := finish(e)
	require.EqualValues(t, 1, e.Counters().Preemptions)
	require.Less(t, last[b].At, first[c])
}

func TestReserveOutputNeverPreempts(t *testing.T) {
	e := small(t, func(c *Config) { c.CacheTokens = 6 * 16; c.MaxModelLen = 6 * 16; c.ReserveOutput = true })
	a, _ := e.Submit(0, Request{Tokens: numbers(0, 32), OutputTokens: 40})
	b, _ := e.Submit(0, Request{Tokens: numbers(500, 32), OutputTokens: 40})
	last, first := finish(e)
	require.Zero(t, e.Counters().Preemptions)
	require.Less(t, last[a].At, first[b])
	require.True(t, last[b].Done)
}

func TestCancel(t *testing.T) {
	e := small(t, func(c *Config) { c.MaxSequences = 1 })
	a, _ := e.Submit(0, Request{Tokens: numbers(0, 250), OutputTokens: 50})
	b, _ := e.Submit(0, Request{Tokens: numbers(500, 10), OutputTokens: 50})
	c, _ := e.Submit(0, Request{Tokens: numbers(900, 10), OutputTokens: 2})
	require.True(t, e.Cancel(0, b), "while it waits")
	e.Advance(120*time.Millisecond, func(Event) {})
	require.True(t, e.Cancel(120*time.Millisecond, a), "in the middle of its prefill")
	require.False(t, e.Cancel(120*time.Millisecond, a))
	require.Zero(t, e.Counters().UsedBlocks)
	last, _ := finish(e)
	require.NotContains(t, last, a)
	require.NotContains(t, last, b)
	require.True(t, last[c].Done)
	require.False(t, e.Cancel(time.Hour, c), "it has ended")
	n := e.Counters()
	require.EqualValues(t, 2, n.Aborted)
	require.EqualValues(t, 1, n.Stopped)
	require.Equal(t, 96, one(t, e, Request{Tokens: numbers(0, 110), OutputTokens: 1}), "its full blocks stay in the cache")
}

func TestLimits(t *testing.T) {
	e := small(t, func(c *Config) { c.MaxSequences = 1; c.MaxQueue = 2; c.MaxModelLen = 100 })
	var length *LengthError
	for _, n := range []int{0, 100, 101} {
		_, err := e.Submit(0, Request{Tokens: numbers(0, n), OutputTokens: 1})
		require.ErrorAs(t, err, &length, "%d tokens", n)
	}
	a, err := e.Submit(0, Request{Tokens: numbers(0, 90), OutputTokens: 50})
	require.NoError(t, err)
	_, err = e.Submit(0, Request{Tokens: numbers(0, 9), OutputTokens: 1})
	require.NoError(t, err)
	_, err = e.Submit(0, Request{Tokens: numbers(0, 9), OutputTokens: 1})
	require.ErrorIs(t, err, ErrQueueFull)
	last, _ := finish(e)
	require.Equal(t, 10, last[a].Generated, "cut where the context ends")
	c := e.Counters()
	require.EqualValues(t, 1, c.Rejected)
	require.EqualValues(t, 1, c.Cut)
	require.EqualValues(t, 1, c.Stopped)
}

func TestSlow(t *testing.T) {
	e := small(t, nil)
	e.SetSlow(3)
	id, _ := e.Submit(0, Request{Tokens: numbers(0, 20), OutputTokens: 1})
	_, first := finish(e)
	require.InDelta(t, 90*time.Millisecond, first[id], float64(time.Microsecond))
}

// Merging decode passes changes how often the engine reports, not what happens.
func TestStretchesAreWorthTheirPasses(t *testing.T) {
	run := func(stretch int) (end []time.Duration, events int) {
		e := small(t, func(c *Config) { c.DecodeStretch = stretch })
		a, _ := e.Submit(0, Request{Tokens: numbers(0, 30), OutputTokens: 50})
		var b ID
		done := map[ID]time.Duration{}
		emit := func(ev Event) {
			events++
			if ev.Done {
				done[ev.ID] = ev.At
			}
		}
		e.Advance(205*time.Millisecond, emit) // in the middle of a pass, and of a stretch
		b, _ = e.Submit(205*time.Millisecond, Request{Tokens: numbers(500, 20), OutputTokens: 20})
		e.Advance(time.Hour, emit)
		require.EqualValues(t, 70, e.Counters().GenerationTokens)
		return []time.Duration{done[a], done[b]}, events
	}
	single, many := run(1)
	merged, few := run(16)
	require.Less(t, few, many/3)
	for i := range single {
		require.InDelta(t, single[i], merged[i], float64(10*time.Microsecond))
	}
}

func TestMetricsLagByAStep(t *testing.T) {
	e := small(t, func(c *Config) { c.MaxSequences = 1 })
	e.Submit(0, Request{Tokens: numbers(0, 20), OutputTokens: 5})
	e.Submit(0, Request{Tokens: numbers(0, 20), OutputTokens: 1})
	require.Zero(t, e.Counters().Waiting, "nothing was published yet")
	require.Equal(t, 1, e.Waiting())
	e.Advance(35*time.Millisecond, func(Event) {})
	require.Zero(t, e.Counters().Waiting, "the second came after the first step was planned")
	e.Advance(45*time.Millisecond, func(Event) {})
	require.Equal(t, 1, e.Counters().Waiting)
	require.Equal(t, 1, e.Counters().Running)
	finish(e)
	require.Zero(t, e.Counters().Waiting)
	require.Zero(t, e.Counters().Running)
}

func TestPoolingEndsWithThePrefill(t *testing.T) {
	e := small(t, nil)
	require.Zero(t, one(t, e, Request{Tokens: numbers(0, 40)}))
	c := e.Counters()
	require.Zero(t, c.GenerationTokens)
	require.EqualValues(t, 1, c.TTFT.Count)
	require.EqualValues(t, 1, c.Stopped)
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{
		{CacheTokens: 15}, {BlockTokens: -1}, {CacheTokens: 100, MaxModelLen: 200}, {MaxQueue: -1},
		{TimeScale: -1}, {DecodeStep: -1}, {Adapters: []string{""}}, {Adapters: []string{"a", "a"}}, {Adapters: []string{DefaultModel}},
	} {
		_, err := NewEngine(c)
		require.Error(t, err, "%+v", c)
	}
	e, err := NewEngine(Config{CacheTokens: 1000})
	require.NoError(t, err)
	require.Equal(t, 992, e.Config().MaxModelLen)
}
