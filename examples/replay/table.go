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

func printHead(w io.Writer, s *settings, t *trace, infinite float64, f *realFleet) {
	fmt.Fprintf(w, "%s: %d requests in %v, ", t.name, len(t.requests), t.duration().Round(time.Second))
	if f == nil {
		fmt.Fprintf(w, "%d simulated engines of %d tokens, rate %g, speed %g", s.instances, s.cache, s.rate, s.speed)
	} else {
		fmt.Fprintf(w, "%d real instances of %q, rate %g", len(f.targets), f.model, s.rate)
	}
	fmt.Fprintf(w, "; an infinite cache would hit %.1f %%\n", 100*infinite)
	if t.shortened > 0 {
		fmt.Fprintf(w, "%d requests were too long for the engine and are shortened\n", t.shortened)
	}
	if f == nil {
		fmt.Fprintf(w, "simulated; times in seconds; mean of %d placements (± standard deviation); prefill: most over mean\n\n", s.seeds)
	} else {
		fmt.Fprintf(w, "measured, and below each policy what the simulation predicts; times in seconds; mean of %d runs (± standard deviation); prefill: most over mean\n", s.seeds)
		fmt.Fprintf(w, "text made of hashes: %.2f tokens a word; the simulated engine has %d tokens of cache\n\n", f.writer.tokensPerWord, s.cache)
	}
	fmt.Fprintf(w, "%-34s %7s", "policy", "clients")
	for _, c := range columns {
		fmt.Fprintf(w, " %*s", c.width, c.name)
	}
	fmt.Fprintln(w)
}

func printRow(w io.Writer, results []result, live bool) {
	first := results[0]
	if first.Kind == predicted {
		fmt.Fprintf(w, "%-34s %7s", "  predicted", "")
	} else {
		fmt.Fprintf(w, "%-34s %7d", first.Policy, first.Clients)
	}
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
	if live && first.Kind == measured {
		printLive(w, results)
	}
}

// printLive prints what is worth knowing of a measurement only.
func printLive(w io.Writer, results []result) {
	var failed, retried, uncounted int
	var late, reported []float64
	for _, r := range results {
		failed, retried = failed+r.Live.Failed, retried+r.Live.Retried
		late = append(late, r.Live.LateMean)
		if r.Live.ReportedHitRate != nil {
			reported = append(reported, 100**r.Live.ReportedHitRate)
		}
		uncounted = max(uncounted, len(r.Shares)-r.Live.InstancesCounted)
		if r.Live.FirstError != "" {
			fmt.Fprintf(w, "    the first failure: %s\n", r.Live.FirstError)
		}
	}
	if len(reported) > 0 {
		fmt.Fprintf(w, "    %.1f %% by cached_tokens of the answers", mean(reported))
	} else {
		fmt.Fprint(w, "    the answers have no cached_tokens (vLLM: --enable-prompt-tokens-details)")
	}
	if uncounted == len(results[0].Shares) {
		fmt.Fprint(w, ", and no instance shows its counters: that is the hit rate above")
	} else if uncounted > 0 {
		fmt.Fprintf(w, ", %d instances do not show their counters and are not in the hit rate above", uncounted)
	}
	fmt.Fprintf(w, "; %d failed, %d retried, sent %.3f s late in the mean\n", failed, retried, mean(late))
}

func each(results []result, of func(result) float64) []float64 {
	var x []float64
	for _, r := range results {
		x = append(x, of(r))
	}
	return x
}

func average(results []result, of func(result) float64) float64 { return mean(each(results, of)) }
