package main

import (
	"fmt"
	"io"
	"time"
)

// column is one column of the table.
type column struct {
	name  string
	width int
	of    func(result) float64
	form  string
}

var columns = []column{
	{"hit %", 11, func(r result) float64 { return 100 * r.HitRate }, "%.1f"},
	{"TTFT mean", 14, func(r result) float64 { return r.TTFTMean }, "%.3f"},
	{"P50", 8, func(r result) float64 { return r.TTFT50 }, "%.3f"},
	{"P90", 8, func(r result) float64 { return r.TTFT90 }, "%.3f"},
	{"P99", 8, func(r result) float64 { return r.TTFT99 }, "%.2f"},
	{"share %", 12, nil, ""},
	{"prefill", 8, func(r result) float64 { return r.PrefillMaxMean }, "%.2f"},
	{"away %", 7, func(r result) float64 { return 100 * r.OverflowRate }, "%.1f"},
	{"tok/s", 8, func(r result) float64 { return r.Throughput }, "%.0f"},
}

// spreadColumns are those for which the spread over placements is shown.
const spreadColumns = 2

func printHead(w io.Writer, s *settings, t *trace, infinite float64) {
	fmt.Fprintf(w, "%s: %d requests in %v, %d engines of %d tokens, rate %g, speed %g; an infinite cache would hit %.1f %%\n",
		t.name, len(t.requests), t.duration().Round(time.Second), s.instances, s.cache, s.rate, s.speed, 100*infinite)
	fmt.Fprintf(w, "simulated; times in seconds; mean of %d placements (± standard deviation); prefill: most over mean\n\n", s.seeds)
	fmt.Fprintf(w, "%-34s %7s", "policy", "clients")
	for _, c := range columns {
		fmt.Fprintf(w, " %*s", c.width, c.name)
	}
	fmt.Fprintln(w)
}

func printRow(w io.Writer, results []result) {
	fmt.Fprintf(w, "%-34s %7d", results[0].Policy, results[0].Clients)
	for i, c := range columns {
		var text string
		if c.of == nil {
			text = fmt.Sprintf("%.1f–%.1f", 100*average(results, func(r result) float64 { return r.ShareMin }), 100*average(results, func(r result) float64 { return r.ShareMax }))
		} else {
			text = fmt.Sprintf(c.form, average(results, c.of))
			if i < spreadColumns {
				text += " ±" + fmt.Sprintf(c.form, spread(each(results, c.of)))
			}
		}
		fmt.Fprintf(w, " %*s", c.width, text)
	}
	if results[0].AfterHitRate != nil {
		fmt.Fprintf(w, "  ten minutes: hit %.1f %%, TTFT %.3f",
			100*average(results, func(r result) float64 { return *r.AfterHitRate }),
			average(results, func(r result) float64 { return *r.AfterTTFTMean }))
	}
	fmt.Fprintln(w)
}

func each(results []result, of func(result) float64) []float64 {
	var x []float64
	for _, r := range results {
		x = append(x, of(r))
	}
	return x
}

func average(results []result, of func(result) float64) float64 { return mean(each(results, of)) }
