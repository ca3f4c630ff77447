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

// printHead prints what there is to replay, and the names of the columns.
func (c *comparison) printHead(t *trace) {
	if c.settings.json {
		return
	}
	w := c.stdout
	for _, line := range c.describe(t) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "%-34s %7s", "policy", "clients")
	for _, c := range columns {
		fmt.Fprintf(w, " %*s", c.width, c.name)
	}
	fmt.Fprintln(w)
}

// describe says in a few lines what is replayed where.
func (c *comparison) describe(t *trace) []string {
	s := c.settings
	first := fmt.Sprintf("%s: %d requests", t.name, len(t.requests))
	if !t.closed {
		first += fmt.Sprintf(" in %v", t.duration().Round(time.Second))
	}
	engines := fmt.Sprintf("%d", s.instances)
	if s.ranks > 1 {
		engines += fmt.Sprintf(" times %d", s.ranks)
	}
	if c.fleet == nil {
		first += fmt.Sprintf(", %s simulated engines of %d tokens, rate %g, speed %g", engines, s.cache, s.rate, s.speed)
	} else {
		first += fmt.Sprintf(", %s real instances of %q, rate %g", engines, c.fleet.model, s.rate)
	}
	lines := []string{first + fmt.Sprintf("; an infinite cache would hit %.1f %%", 100*c.infinite)}
	if t.shortened > 0 {
		lines = append(lines, fmt.Sprintf("%d requests were too long for the engine and are shortened", t.shortened))
	}
	if t.bytesPerToken > 0 && c.fleet == nil {
		lines = append(lines, fmt.Sprintf("lengths: %.2f bytes of text to a token", t.bytesPerToken))
	}
	if c.fleet == nil {
		return append(lines, fmt.Sprintf("simulated; times in seconds; mean of %d placements (± standard deviation); prefill: most over mean", s.seeds))
	}
	return append(lines,
		fmt.Sprintf("measured, and below each policy what the simulation predicts (engines of %d tokens); times in seconds; mean of %d runs (± standard deviation); prefill: most over mean", s.cache, s.seeds),
		fmt.Sprintf("text made of hashes has %.2f tokens a word", c.fleet.writer.tokensPerWord))
}

// printRow prints a row of the table and what was predicted.
func (c *comparison) printRow(r *row) {
	if c.settings.json {
		return
	}
	printResults(c.stdout, r.results)
	if c.fleet != nil {
		printLive(c.stdout, r.results)
		printResults(c.stdout, r.predicted)
	}
}

func printResults(w io.Writer, results []result) {
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
