package vllmsim

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// check compares the pool with what the sequences hold.
func (e *Engine) check(t *rapid.T) {
	p := e.pool
	refs := make([]int32, p.capacity())
	for _, s := range e.running {
		for _, b := range s.blocks {
			refs[b]++
		}
		if want := e.blocksOf(s.computed); len(s.blocks) < want {
			t.Fatalf("sequence of %d computed tokens holds %d blocks", s.computed, len(s.blocks))
		}
	}
	for _, s := range e.waiting {
		if len(s.blocks) != 0 {
			t.Fatalf("a waiting sequence holds %d blocks", len(s.blocks))
		}
	}
	used, published := 0, 0
	for i, want := range refs {
		b := &p.blocks[i]
		if b.refs != want {
			t.Fatalf("block %d has %d references, held %d times", i, b.refs, want)
		}
		if want > 0 {
			used++
		}
		if b.hash != 0 {
			published++
			if p.index[b.hash] != int32(i) {
				t.Fatalf("block %d is not where its hash says", i)
			}
		}
	}
	if published != len(p.index) {
		t.Fatalf("%d blocks hold a prefix, %d are known", published, len(p.index))
	}
	listed := 0
	for b := p.blocks[p.sentinel()].next; b != p.sentinel(); b = p.blocks[b].next {
		if p.blocks[b].refs != 0 {
			t.Fatalf("block %d is in use and in the free list", b)
		}
		listed++
	}
	if listed != p.free || used+p.free != p.capacity() || p.free < 0 {
		t.Fatalf("%d used and %d free (%d listed) of %d", used, p.free, listed, p.capacity())
	}
	if len(e.running)+len(e.waiting) != len(e.live) || len(e.running) > e.cfg.MaxSequences {
		t.Fatalf("%d running, %d waiting, %d live", len(e.running), len(e.waiting), len(e.live))
	}
}

// TestAccounting submits, cancels and advances at random: blocks are never lost,
// shared by mistake or counted twice, time never runs back, and every sequence
// ends exactly once with what it asked for.
func TestAccounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := rapid.IntRange(2, 24).Draw(t, "blocks")
		cfg := Config{
			BlockTokens: 4, CacheTokens: 4 * blocks,
			MaxBatchTokens: rapid.IntRange(1, 40).Draw(t, "budget"),
			MaxSequences:   rapid.IntRange(1, 6).Draw(t, "sequences"),
			DecodeStretch:  rapid.SampledFrom([]int{1, 8}).Draw(t, "stretch"),
			ReserveOutput:  rapid.Bool().Draw(t, "reserve"),
			ReuseOutput:    rapid.Bool().Draw(t, "reuse"),
		}
		e, err := NewEngine(cfg)
		if err != nil {
			t.Fatal(err)
		}
		wanted, generated, prompts := map[ID]int{}, map[ID]int{}, map[ID]int{}
		ended := map[ID]bool{}
		var now, last time.Duration
		emit := func(ev Event) {
			if ended[ev.ID] || ev.At < last || ev.Cached%4 != 0 || ev.Cached >= prompts[ev.ID] {
				t.Fatalf("unexpected %+v after %v", ev, last)
			}
			if ev.First != (generated[ev.ID] == 0) {
				t.Fatalf("first output twice or late: %+v", ev)
			}
			last = ev.At
			generated[ev.ID] += ev.Tokens
			if generated[ev.ID] != ev.Generated || ev.Done != (ev.Generated == wanted[ev.ID]) {
				t.Fatalf("%+v, but %d of %d tokens", ev, generated[ev.ID], wanted[ev.ID])
			}
			ended[ev.ID] = ev.Done
		}
		var ids []ID
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				// Three families of prompts, so that prefixes are shared.
				n := rapid.IntRange(1, e.Config().MaxModelLen-1).Draw(t, "prompt")
				out := rapid.IntRange(0, 12).Draw(t, "output")
				r := Request{Tokens: numbers(1000*rapid.IntRange(0, 2).Draw(t, "family"), n+out), PromptTokens: n, OutputTokens: out}
				id, err := e.Submit(now, r)
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
				prompts[id], wanted[id] = n, min(out, e.Config().MaxModelLen-n)
			},
			"advance": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(0, 60).Draw(t, "ms")) * time.Millisecond
				e.Advance(now, emit)
				if at, ok := e.Next(); ok && at <= now {
					t.Fatalf("something is left at %v, now is %v", at, now)
				}
			},
			"cancel": func(t *rapid.T) {
				if len(ids) == 0 {
					t.Skip("nothing to cancel")
				}
				id := rapid.SampledFrom(ids).Draw(t, "id")
				if e.Cancel(now, id) == ended[id] {
					t.Fatalf("cancel of %d, which has ended: %v", id, ended[id])
				}
				ended[id] = true
			},
			"reset": func(*rapid.T) { e.ResetCache() },
			"":      e.check,
		})
		e.Advance(now+1000*time.Hour, emit)
		e.check(t)
		for _, id := range ids {
			if !ended[id] {
				t.Fatalf("sequence %d never ended", id)
			}
		}
		if e.pool.free != e.pool.capacity() {
			t.Fatalf("%d blocks are still held", e.pool.capacity()-e.pool.free)
		}
	})
}
