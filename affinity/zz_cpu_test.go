package affinity

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"syscall"
	"testing"
)

func cpuNow() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(1, &u) // RUSAGE_THREAD
	return u.Utime.Nano() + u.Stime.Nano()
}

func TestZZCPU(t *testing.T) {
	if os.Getenv("ZZ") == "" {
		t.Skip()
	}
	runtime.LockOSThread()
	measure := func(name string, f func(i int64)) {
		var all []float64
		for range 7 {
			const n = 40000
			c := cpuNow()
			for i := range int64(n) {
				f(i)
			}
			all = append(all, float64(cpuNow()-c)/n)
		}
		sort.Float64s(all)
		fmt.Printf("%-45s min %7.0f  median %7.0f cpu-ns\n", name, all[0], all[3])
	}
	sum := uint64(0)
	measure("1000 mixes", func(i int64) {
		for range 1000 {
			sum = mix(sum + uint64(i))
		}
	})
	bare := newRouter(t, Options{Strategy: LeastOutstanding}, fleet(8)...)
	measure("least-outstanding/8", func(i int64) {
		q := Request{}
		l, _ := bare.Pick(&q)
		l.Release(outcomeGood)
	})
	for _, n := range []int{8, 64, 256} {
		for _, boundaries := range []int{4, 41} {
			r, conversations := promptBench(t, n, boundaries)
			measure(fmt.Sprintf("endpoints=%d/boundaries=%d", n, boundaries), func(i int64) {
				q := conversations[i%1024]
				l, _ := r.Pick(&q)
				l.Release(outcomeGood)
			})
		}
	}
}
