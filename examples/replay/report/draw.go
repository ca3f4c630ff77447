package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// drawTTFT draws how many of the requests have their first token after a time.
func drawTTFT(arms []Arm, width, height int) template.HTML {
	low, high := math.Inf(1), 0.0
	for _, a := range arms {
		for _, v := range a.TTFT {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if high == 0 {
		low, high = .01, 1
	}
	x := logAxis(low, high, (width-60)/60)
	x.name = "time to first token"
	c := newCanvas(width, height, "Share of the requests that have their first token after a time, by policy", x, percentAxis())
	for _, a := range arms {
		share := make([]float64, len(a.TTFT))
		for k := range share {
			share[k] = float64(k) / float64(max(len(share)-1, 1))
		}
		c.line(a.stroke(), a.TTFT, share)
	}
	return c.end()
}

// drawHits draws the hit rate over time.
func drawHits(p Page, width, height int) template.HTML {
	x := timeAxis(p.Span.Seconds(), (width-60)/70)
	x.name = "time since the beginning"
	c := newCanvas(width, height, "Hit rate over time, by policy", x, percentAxis())
	for _, a := range p.Arms {
		var at, rate []float64
		for k, h := range a.Hits {
			if h >= 0 {
				at, rate = append(at, (float64(k)+.5)/float64(len(a.Hits))*x.high), append(rate, h)
			}
		}
		c.line(a.stroke(), at, rate)
	}
	for i, change := range p.Changes {
		c.mark(change.At.Seconds(), i+1)
	}
	return c.end()
}

// strip is the shares of one arm: a bar for each instance.
type strip struct {
	Name string
	Bars template.HTML
	Text string
}

// bars draws an arm's shares. All arms have the same scale.
func bars(arm Arm, all []Arm) template.HTML {
	const width, height = 400.0, 44.0
	most, n := 0.0, 1
	for _, a := range all {
		n = max(n, len(a.Shares))
		for _, s := range a.Shares {
			most = max(most, s)
		}
	}
	if most == 0 {
		most = 1
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" preserveAspectRatio="none" role="img" aria-label="Share of the requests of each instance">`, width, height)
	slot := width / float64(n)
	for i, s := range arm.Shares {
		h := s / most * (height - 2)
		fmt.Fprintf(&b, `<rect fill="%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`, arm.colour(), (float64(i)+.1)*slot, height-h, .8*slot, h)
	}
	even := height - 1/float64(max(len(arm.Shares), 1))/most*(height-2)
	fmt.Fprintf(&b, `<line class="even" x1="0" y1="%.2f" x2="%g" y2="%.2f"/></svg>`, even, width, even)
	return template.HTML(b.String())
}

func shareText(shares []float64) string {
	if len(shares) == 0 {
		return "no requests"
	}
	return fmt.Sprintf("%.1f to %.1f %%", 100*slices.Min(shares), 100*slices.Max(shares))
}

func percentAxis() axis {
	a := axis{high: 1}
	for p := 0; p <= 100; p += 25 {
		a.ticks = append(a.ticks, tick{float64(p) / 100, fmt.Sprintf("%d %%", p)})
	}
	return a
}

// logAxis spans values from low to high in powers of ten, with at most so many
// ticks: at 1, 2 and 5 of each power if that many fit, or at fewer.
func logAxis(low, high float64, most int) axis {
	a := axis{low: low, high: max(high, 1.5*low), log: true}
	for _, steps := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		a.ticks = nil
		for power := math.Floor(math.Log10(a.low)); power <= math.Ceil(math.Log10(a.high)); power++ {
			for _, s := range steps {
				if v := s * math.Pow(10, power); v >= a.low && v <= a.high {
					a.ticks = append(a.ticks, tick{v, duration(v)})
				}
			}
		}
		if len(a.ticks) <= most {
			break
		}
	}
	for len(a.ticks) > most { // many powers of ten
		a.ticks = slices.DeleteFunc(a.ticks, func(t tick) bool { return int(math.Round(math.Log10(t.at)))%2 != 0 })
		most++
	}
	if len(a.ticks) < 2 {
		a.ticks = []tick{{a.low, duration(a.low)}, {a.high, duration(a.high)}}
	}
	return a
}

// timeAxis spans so many seconds, with at most so many ticks at round times.
func timeAxis(seconds float64, most int) axis {
	a := axis{high: max(seconds, 1e-3)}
	for _, step := range []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 6 * 3600, 12 * 3600, 86400} {
		if n := a.high / step; n <= float64(most) || step == 86400 {
			step *= math.Ceil(n / float64(most))
			for v := 0.0; v <= a.high; v += step {
				a.ticks = append(a.ticks, tick{v, duration(v)})
			}
			return a
		}
	}
	return a
}

// duration writes seconds with the unit that fits.
func duration(s float64) string {
	trim := func(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.3g", v), ".0") }
	switch {
	case s == 0:
		return "0"
	case s < 1e-3:
		return trim(s*1e6) + " µs"
	case s < 1:
		return trim(s*1e3) + " ms"
	case s < 120:
		return trim(s) + " s"
	case s < 7200:
		return trim(s/60) + " min"
	}
	return trim(s/3600) + " h"
}
