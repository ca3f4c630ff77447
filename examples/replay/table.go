package main

import (
	"fmt"
	"io"
	"time"
)

// column is one column of the table.
type column struct {
	name  string // on the terminal
	width int
	title string // in the report, with the unit
	cell  func(results []result) string
}

var columns = []column{
	{"hit %", 11, "hit rate, %", spreadOf("%.1f", func(r result) float64 { return 100 * r.HitRate })},
	{"TTFT mean", 14, "TTFT mean, s", spreadOf("%.3f", func(r result) float64 { return r.TTFTMean })},
	{"P50", 8, "P50, s", meanOf("%.3f", func(r result) float64 { return r.TTFT50 })},
	{"P90", 8, "P90, s", meanOf("%.3f", func(r result) float64 { return r.TTFT90 })},
	{"P99", 8, "P99, s", meanOf("%.2f", func(r result) float64 { return r.TTFT99 })},
	{"share %", 12, "share, %", func(results []result) string {
		return fmt.Sprintf("%.1f–%.1f", 100*average(results, func(r result) float64 { return r.ShareMin }),
			100*average(results, func(r result) float64 { return r.ShareMax }))
	}},
	{"prefill", 8, "prefill, most over mean", meanOf("%.2f", func(r result) float64 { return r.PrefillMaxMean })},
	{"overflow %", 10, "overflow, %", meanOf("%.1f", func(r result) float64 { return 100 * r.OverflowRate })},
	{"tok/s", 8, "tokens/s", meanOf("%.0f", func(r result) float64 { return r.Throughput })},
}

func meanOf(form string, of func(result) float64) func([]result) string {
	return func(results []result) string { return fmt.Sprintf(form, average(results, of)) }
}

// spreadOf shows the standard deviation beside the mean, where there is one.
func spreadOf(form string, of func(result) float64) func([]result) string {
	return func(results []result) string {
		if len(results) < 2 {
			return fmt.Sprintf(form, of(results[0]))
		}
		return fmt.Sprintf(form+" ±"+form, average(results, of), spread(each(results, of)))
	}
}

// describe says in a few lines what is replayed where.
func (c *comparison) describe(t *trace) []string {
	s := c.settings
	first := fmt.Sprintf("%s: %d requests", t.name, len(t.requests))
	if !t.closed {
		first += fmt.Sprintf(" in %v", t.duration().Round(time.Second))
	}
	engines := fmt.Sprint(s.instances)
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
	if t.bytesPerToken > 0 {
		lines = append(lines, fmt.Sprintf("lengths: %.2f bytes of text to a token", t.bytesPerToken))
	}
	if c.fleet == nil {
		return append(lines, fmt.Sprintf("simulated; times in seconds; %s; prefill: most over mean", meansOf(s.seeds, "placement")))
	}
	return append(lines,
		fmt.Sprintf("measured, and below each policy what the simulation predicts (engines of %d tokens); times in seconds; %s; prefill: most over mean", s.cache, meansOf(s.seeds, "run")),
		fmt.Sprintf("text made of hashes has %.2f tokens a word", c.fleet.writer.tokensPerWord))
}

// meansOf says what a row is out of.
func meansOf(n int, thing string) string {
	if n == 1 {
		return "one " + thing
	}
	return fmt.Sprintf("mean of %d %ss (± standard deviation)", n, thing)
}

// printHead prints what there is to replay, and the names of the columns.
func (c *comparison) printHead(t *trace) {
	if c.settings.json {
		return
	}
	for _, line := range c.describe(t) {
		fmt.Fprintln(c.stdout, line)
	}
	fmt.Fprintf(c.stdout, "\n%-34s %7s", "policy", "clients")
	for _, column := range columns {
		fmt.Fprintf(c.stdout, " %*s", column.width, column.name)
	}
	fmt.Fprintln(c.stdout)
}

// printRow prints a row of the table and what was predicted.
func (c *comparison) printRow(r *row) {
	if c.settings.json {
		return
	}
	printCells(c.stdout, r.policy.name, r.results)
	for _, note := range notes(r.results) {
		fmt.Fprintf(c.stdout, "    %s\n", note)
	}
	if len(r.predicted) > 0 {
		printCells(c.stdout, "  predicted", r.predicted)
	}
}

func printCells(w io.Writer, name string, results []result) {
	for i, cell := range cells(results) {
		if i == 0 {
			fmt.Fprintf(w, "%-34s %7s", name, cell)
		} else {
			fmt.Fprintf(w, " %*s", columns[i-1].width, cell)
		}
	}
	fmt.Fprintln(w)
}

// cells are a row without its name.
func cells(results []result) []string {
	row := []string{fmt.Sprint(results[0].Clients)}
	for _, column := range columns {
		row = append(row, column.cell(results))
	}
	return row
}

// notes is what is worth knowing of some rows only.
func notes(results []result) []string {
	var lines []string
	if results[0].AfterHitRate != nil {
		lines = append(lines, fmt.Sprintf("ten minutes: hit %.1f %%, TTFT %.3f s", 100*average(results, func(r result) float64 { return *r.AfterHitRate }),
			average(results, func(r result) float64 { return *r.AfterTTFTMean })))
	}
	if results[0].Live == nil {
		return lines
	}
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
			lines = append(lines, "the first failure: "+r.Live.FirstError)
		}
	}
	said := "the answers have no cached_tokens (vLLM: --enable-prompt-tokens-details)"
	if len(reported) > 0 {
		said = fmt.Sprintf("%.1f %% by cached_tokens of the answers", mean(reported))
	}
	if uncounted == len(results[0].Shares) {
		said += ", and no instance shows its counters: that is the hit rate above"
	} else if uncounted > 0 {
		said += fmt.Sprintf(", instances that do not show their counters and are not in the hit rate above: %d", uncounted)
	}
	return append(lines, fmt.Sprintf("%s; %d failed, %d retried, sent %.3f s late in the mean", said, failed, retried, mean(late)))
}

func each(results []result, of func(result) float64) []float64 {
	var x []float64
	for _, r := range results {
		x = append(x, of(r))
	}
	return x
}

func average(results []result, of func(result) float64) float64 { return mean(each(results, of)) }
