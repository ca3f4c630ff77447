package affinity

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// busy returns a router with n endpoints and two requests in flight on each on
// average, more on some and fewer on others.
func busy(t testing.TB, o Options, n int, change func([]Endpoint)) *Router {
	es := fleet(n)
	if change != nil {
		change(es)
	}
	r := newRouter(t, o, es...)
	for i := range n * 2 {
		pick(t, r, Request{Sticky: es[mix(uint64(i))%uint64(n)].ID})
	}
	return r
}

func weighted(es []Endpoint) {
	for i := range es {
		es[i].Weight = uint32(1 + i%3)
	}
}

func TestPickDoesNotAllocate(t *testing.T) {
	for _, n := range []int{8, 256} {
		for _, strategy := range strategies {
			for name, r := range map[string]*Router{
				"plain":      busy(t, Options{Strategy: strategy}, n, nil),
				"weighted":   busy(t, Options{Strategy: strategy}, n, weighted),
				"overflow":   busy(t, Options{Strategy: strategy, Floor: 1, LoadFactor: 1}, n, nil),
				"at limits":  busy(t, Options{Strategy: strategy, Limit: 2}, n, nil),
				"over limit": busy(t, Options{Strategy: strategy, Limit: 1}, n, nil),
			} {
				root := uint64(0)
				allocs := testing.AllocsPerRun(200, func() {
					// On the caller's stack: Pick must not make these escape.
					tried := [2]string{"http://10.0.0.1:8000", "http://10.0.0.2:8000"}
					root++
					req := Request{Root: root, Prefix: root, Session: "s", Tenant: "t", CacheKey: "c", Model: "m", Last: "http://10.0.0.3:8000", Tried: tried[:root%3]}
					if root%2 == 0 {
						req.Strategy = strategy
					}
					lease, err := r.Pick(&req)
					if err != nil {
						t.Fatal(err)
					}
					lease.Release(Outcome{Status: 200})
				})
				require.Zero(t, allocs, "%s, %s, %d endpoints", strategy, name, n)
			}
		}
	}
}

// BenchmarkPick is one pick and its release; the goroutines share the router.
func BenchmarkPick(b *testing.B) {
	for _, strategy := range strategies {
		for _, n := range []int{8, 64, 256} {
			for _, goroutines := range []int{1, 16} {
				b.Run(fmt.Sprintf("%s/endpoints=%d/goroutines=%d", strategy, n, goroutines), func(b *testing.B) {
					run(b, busy(b, Options{Strategy: strategy}, n, nil), goroutines, conversation)
				})
			}
		}
	}
}

// BenchmarkPickHard is the same where a pick has most to do: unequal weights,
// and homes that are left because of load.
func BenchmarkPickHard(b *testing.B) {
	for _, n := range []int{8, 256} {
		b.Run(fmt.Sprintf("weighted/endpoints=%d", n), func(b *testing.B) {
			run(b, busy(b, Options{}, n, weighted), 1, conversation)
		})
		b.Run(fmt.Sprintf("overflow/endpoints=%d", n), func(b *testing.B) {
			run(b, busy(b, Options{Floor: 1, LoadFactor: 1}, n, nil), 1, conversation)
		})
		b.Run(fmt.Sprintf("weighted-overflow/endpoints=%d", n), func(b *testing.B) {
			run(b, busy(b, Options{Floor: 1, LoadFactor: 1}, n, weighted), 1, conversation)
		})
		b.Run(fmt.Sprintf("over-limit/endpoints=%d", n), func(b *testing.B) {
			run(b, busy(b, Options{Limit: 1}, n, nil), 1, conversation)
		})
	}
}

// conversation is a request of which only the keys are known, another one each
// time.
func conversation(i int64) Request {
	root := mix(uint64(i)) | 1
	return Request{Head: 1, Root: root, Prefix: root, Tenant: "tenant"}
}

func run(b *testing.B, r *Router, goroutines int, request func(int64) Request) {
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			const batch = 64 // so that the benchmark's own counter costs little
			for {
				n := left.Add(-batch) + batch
				if n <= 0 {
					return
				}
				for range min(n, batch) {
					n--
					req := request(n)
					lease, err := r.Pick(&req)
					if err != nil {
						b.Error(err)
						return
					}
					lease.Release(Outcome{Status: 200, PromptTokens: 100, CachedTokens: 50, Boundaries: req.Boundaries})
				}
			}
		})
	}
	wg.Wait()
}
