package client

import (
	"cmp"
	"math"
	"slices"
)

// Estimate is a figure with the 95 % interval that its sample leaves open.
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Conversations is the size of the sample. With fewer than two there is no
	// interval, and with fewer than thirty it is not to be relied on.
	Conversations int `json:"conversations"`
}

// Clear tells whether the interval of a difference leaves out zero: it is not
// chance alone.
func (e Estimate) Clear() bool {
	return e.Conversations >= enoughConversations && (e.Low > 0 || e.High < 0)
}

// enoughConversations is where the normal approximation begins to be fair.
const enoughConversations = 30

// quantile95 is the two-sided 95 % quantile of Student's distribution with n-1
// degrees of freedom: the normal one with the first term of its expansion (Abramowitz
// and Stegun, 26.7.5), which is 2 % too small at n = 10 and 0.1 % at n = 30.
func quantile95(n int) float64 {
	const z = 1.959964
	return z + (z*z*z+z)/(4*float64(n-1))
}

// ratio estimates sum(x)/sum(y) over independent clusters. Requests of one
// conversation depend on one another, so their conversation is what counts as
// one observation. The variance is that of the linearized ratio (the delta
// method for a ratio of sums; Cochran, Sampling Techniques, 1977, chapter 6).
func ratio[T any](clusters []T, of func(T) (x, y float64)) Estimate {
	var e Estimate
	var sumX, sumY float64
	for _, c := range clusters {
		if x, y := of(c); y > 0 {
			sumX, sumY = sumX+x, sumY+y
			e.Conversations++
		}
	}
	if e.Conversations == 0 {
		return e
	}
	e.Value = sumX / sumY
	e.Low, e.High = e.Value, e.Value
	if e.Conversations < 2 {
		return e
	}
	squares := 0.0
	for _, c := range clusters {
		if x, y := of(c); y > 0 {
			squares += (x - e.Value*y) * (x - e.Value*y)
		}
	}
	n := float64(e.Conversations)
	half := quantile95(e.Conversations) * math.Sqrt(squares*n/(n-1)) / sumY
	e.Low, e.High = e.Value-half, e.Value+half
	return e
}

// median estimates the median of the values of all clusters. Its interval is
// that of order statistics, widened for clusters as Woodruff (1952) does: the
// part of values below the median is a ratio over clusters, whose interval,
// around one half, is read off the ordered values. Each value of a cluster
// stands for as many as values says.
func median[T any](clusters []T, of func(T) (values []float32, weight float64)) Estimate {
	type point struct{ value, weight float64 }
	var all []point
	var e Estimate
	total := 0.0
	for _, c := range clusters {
		values, weight := of(c)
		if len(values) > 0 {
			e.Conversations++
		}
		for _, v := range values {
			all = append(all, point{float64(v), weight})
			total += weight
		}
	}
	if e.Conversations == 0 {
		return e
	}
	slices.SortFunc(all, func(a, b point) int { return cmp.Compare(a.value, b.value) })
	at := func(part float64) float64 {
		below := 0.0
		for _, p := range all {
			if below += p.weight; below >= part*total {
				return p.value
			}
		}
		return all[len(all)-1].value
	}
	e.Value = at(.5)
	e.Low, e.High = e.Value, e.Value
	if e.Conversations < 2 {
		return e
	}
	below := ratio(clusters, func(c T) (x, y float64) {
		values, weight := of(c)
		for _, v := range values {
			if float64(v) <= e.Value {
				x += weight
			}
			y += weight
		}
		return x, y
	})
	half := (below.High - below.Low) / 2
	e.Low, e.High = at(max(0, .5-half)), at(min(1, .5+half))
	return e
}

// minus is the difference of two independent estimates. Its interval is put
// together from theirs, which need not be symmetric (MOVER: Zou and Donner,
// 2008).
func (e Estimate) minus(o Estimate) Estimate {
	if e.Conversations == 0 || o.Conversations == 0 {
		return Estimate{}
	}
	d := Estimate{Value: e.Value - o.Value, Conversations: min(e.Conversations, o.Conversations)}
	d.Low = d.Value - math.Hypot(e.Value-e.Low, o.High-o.Value)
	d.High = d.Value + math.Hypot(e.High-e.Value, o.Value-o.Low)
	return d
}
