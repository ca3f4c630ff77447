package affinity

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A router's memory does not grow with the conversations it has seen: what it
// keeps of them is bounded, at 32 MiB unless told otherwise.
func TestIndexMemoryIsBounded(t *testing.T) {
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for _, bytes := range []int{0, 1 << 20} {
		before := heap()
		r := newRouter(t, Options{IndexBytes: bytes}, fleet(8)...)
		q := turn(1, 25, 24)
		for c := range uint64(4000) { // 100,000 prefixes, more than the small one holds
			for i := range q.Boundaries {
				q.Boundaries[i].Hash = mix(c<<8 + uint64(i) + 1)
			}
			q.Root = c + 1
			l, err := r.Pick(&q)
			require.NoError(t, err)
			l.Release(Outcome{Status: 200, PromptTokens: 50_000, CachedTokens: 100, FirstByte: time.Second})
		}
		bound := 32 << 20
		if bytes > 0 {
			bound = bytes
		}
		grown := heap() - before
		t.Logf("%d KiB for an index of %d KiB and the rest of a router", grown>>10, bound>>10)
		require.LessOrEqual(t, grown, bound+256<<10, "and 256 KiB for all else")
		require.LessOrEqual(t, bound, grown+256<<10, "it was there to be measured")
		runtime.KeepAlive(r)
	}
}

// Of many goroutines whose first picks come together, one makes the index.
func TestOneIndex(t *testing.T) {
	r := newRouter(t, Options{}, fleet(2)...)
	made := make([]*index, 16)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() { made[i] = r.snap.Load().sent() })
	}
	wg.Wait()
	for _, x := range made {
		require.Same(t, made[0], x)
	}
}

// The word of an entry behaves as a small map of endpoints to whether they have
// served the prefix, up to the fifth endpoint; from then on it names none.
func TestEntryIsAMapOfEndpoints(t *testing.T) {
	number := rapid.OneOf(rapid.Uint16Range(0, 5), rapid.Uint16Range(maxNumber-5, maxNumber-1))
	rapid.Check(t, func(t *rapid.T) {
		word, model, many := uint64(0), map[uint16]bool{}, false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			e := number.Draw(t, "endpoint")
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				word = joined(word, e, 0)
				if !model[e] {
					model[e] = false // it is there, and stays as it is
				}
			case 1:
				word = joined(word, e, served)
				model[e] = true
			case 2:
				word = without(word, e)
				if !many && !model[e] {
					delete(model, e)
				}
			}
			if many = many || len(model) > 4; many {
				require.Equal(t, everywhere, word)
				continue
			}
			var h holdings
			require.Equal(t, len(model) > 0, h.look(word, 1000))
			require.Equal(t, len(model), h.n)
			require.Zero(t, h.general)
			for e, serves := range model {
				require.Equal(t, 1000, h.of(e))
				require.Equal(t, serves, without(word, e) == word)
				require.Equal(t, word, joined(word, e, 0))
			}
		}
	})
}

// BenchmarkIndex is what one prompt costs: 20 of its prefixes are looked up and
// noted. Full means that nothing is known of it and others make room.
func BenchmarkIndex(b *testing.B) {
	for _, known := range []bool{true, false} {
		for _, goroutines := range []int{1, 16} {
			b.Run(fmt.Sprintf("known=%v/goroutines=%d", known, goroutines), func(b *testing.B) {
				x := newIndex(defaultIndexBytes)
				for i := range uint64(3 << 20) {
					x.line(mix(i)).put(mix(i), uint16(i%8), time.Second)
				}
				b.ReportAllocs()
				b.ResetTimer()
				var wg sync.WaitGroup
				for g := range uint64(goroutines) {
					wg.Go(func() {
						var t trail
						all := make([]Boundary, 20)
						for n := range uint64(b.N / goroutines) {
							first := (n*16 + g) % 4096 * 20 // each goroutine has prompts of its own
							if !known {
								first += (n/4096 + 1) << 32
							}
							for i := range all {
								all[i] = Boundary{Hash: mix(3<<20 - 1 - first - uint64(i)), Bytes: 1000 << (i / 4)}
								t.at[i].boundary = uint32(i)
							}
							t.n = len(all)
							t.seek(x, 0, all)
							for i := range all {
								l := &x.lines[t.at[i].line]
								l.get(all[i].Hash)
								l.put(all[i].Hash, uint16(n%4), 2*time.Second)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
