package affinity

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkPickPrompt is a pick and its release as the client asks for them: by
// the prompt's boundaries, over a fleet whose gauges are known. The goroutines
// share the router. There are 1,024 conversations, under one head, so that what
// is remembered of them does not fit into a processor's nearest caches.
func BenchmarkPickPrompt(b *testing.B) {
	for _, n := range []int{8, 64, 256} {
		for _, boundaries := range []int{4, 41} {
			for _, goroutines := range []int{1, 16} {
				b.Run(fmt.Sprintf("endpoints=%d/boundaries=%d/goroutines=%d", n, boundaries, goroutines), func(b *testing.B) {
					r, conversations := promptBench(b, n, boundaries)
					run(b, r, goroutines, func(i int64) Request { return conversations[i%1024] })
				})
			}
		}
	}
}

// BenchmarkPickPromptOnly times the picks alone, eight at a time, without their
// releases: pick-ns/op.
func BenchmarkPickPromptOnly(b *testing.B) {
	r, conversations := promptBench(b, 8, 4)
	b.ResetTimer()
	b.ReportAllocs()
	var leases [8]Lease
	var spent time.Duration
	for i := 0; i < b.N; i += len(leases) {
		start := time.Now()
		for j := range leases {
			leases[j], _ = r.Pick(&conversations[(i+j)%len(conversations)])
		}
		spent += time.Since(start)
		for j := range leases {
			leases[j].Release(outcomeGood)
		}
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "pick-ns/op")
}

func promptBench(t testing.TB, n, boundaries int) (*Router, []Request) {
	r := newRouter(t, Options{}, fleet(n)...)
	for round := range uint64(3) {
		for _, e := range fleet(n) {
			r.Observe(e.ID, Gauges{Running: 1, CacheTokens: 1_000_000,
				PrefixQueries: 1000 * round, PromptTokens: 1000 * round, FirstTokens: round})
		}
	}
	conversations := make([]Request, 1024)
	for c := range conversations {
		q := turn(uint64(c+1), boundaries, boundaries-2)
		q.Boundaries[0] = Boundary{Hash: 7, Bytes: 4000}
		q.Head, q.Tenant = 7, "tenant"
		conversations[c] = q
		pick(t, r, q).Release(outcomeGood)
	}
	return r, conversations
}
