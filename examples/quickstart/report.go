package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/examples/internal/ideal"
)

// result is one policy's line, in the table and in JSON.
type result struct {
	Policy       client.Strategy `json:"policy"`
	Requests     int             `json:"requests"`
	Errors       int             `json:"errors"`
	HitRate      *float64        `json:"hit_rate"` // null when no engine reports cached tokens
	TTFTP50      float64         `json:"ttft_p50"` // seconds
	TTFTP90      float64         `json:"ttft_p90"` // seconds
	ShareMin     float64         `json:"share_min"`
	ShareMax     float64         `json:"share_max"`
	OverflowRate float64         `json:"overflow_rate"`
	InfiniteRate float64         `json:"infinite_cache_hit_rate"`

	shares     []float64 // by instance
	firstError error
}

// result sums up what has been answered.
func (a *arm) result(policy client.Strategy) result {
	r := result{Policy: policy, Requests: len(a.done)}
	var ttft []time.Duration
	prompt, cached, overflow, reported := 0, 0, 0, false
	count := map[string]int{}
	for _, e := range a.client.Stats().Endpoints {
		count[e.ID] = 0 // one that got nothing has a share too
	}
	for _, d := range a.done {
		if d.err != nil {
			r.Errors++
			if r.firstError == nil {
				r.firstError = d.err
			}
			continue
		}
		ttft = append(ttft, d.ttft)
		count[d.endpoint]++
		prompt += d.prompt
		cached += d.cached
		// Some versions of vLLM leave the figure out when it is zero.
		reported = reported || d.reported
		if d.overflow {
			overflow++
		}
	}
	answered := max(len(ttft), 1)
	if reported {
		rate := float64(cached) / float64(max(prompt, 1))
		r.HitRate = &rate
	}
	slices.Sort(ttft)
	r.TTFTP50, r.TTFTP90 = quantile(ttft, .5).Seconds(), quantile(ttft, .9).Seconds()
	for _, id := range slices.Sorted(maps.Keys(count)) {
		r.shares = append(r.shares, float64(count[id])/float64(answered))
	}
	if len(r.shares) > 0 {
		r.ShareMin, r.ShareMax = slices.Min(r.shares), slices.Max(r.shares)
	}
	r.OverflowRate = float64(overflow) / float64(answered)
	var endless ideal.Cache
	for _, request := range a.sent {
		if err := endless.Add(request); err != nil && r.firstError == nil {
			r.firstError = err
		}
	}
	r.InfiniteRate = endless.HitRate()
	return r
}

// quantile returns the smallest of the sorted durations that the fraction q of
// them does not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

func writeJSON(w io.Writer, results []result) error {
	out := json.NewEncoder(w)
	for _, r := range results {
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func writeTable(w io.Writer, s settings, m mix, results []result) error {
	var b strings.Builder
	if s.endpoints == "" {
		fmt.Fprintf(&b, "The %d engines are SIMULATED, with assumed speeds: nothing here is a measurement of vLLM.\n", m.instances)
	} else {
		fmt.Fprintf(&b, "On %d instances, each policy with cold caches (a cache_salt of its own).\n", len(results[0].shares))
	}
	fmt.Fprintf(&b, "Traffic: chats, agents and questions about documents, the same for both policies.\n\n")
	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "policy\trequests\terrors\thit rate\tTTFT P50\tTTFT P90\tshare per instance\toverflow")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", r.Policy, r.Requests, r.Errors, rate(r.HitRate),
			seconds(r.TTFTP50), seconds(r.TTFTP90), shares(r.shares), percent(r.OverflowRate))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	random, affinity := results[0], results[1]
	fmt.Fprintf(&b, "\nA cache without bounds would hit %s of the tokens", percent(affinity.InfiniteRate))
	if s.endpoints != "" {
		b.WriteString(" (an estimate, with the simulator's tokenizer)")
	}
	b.WriteString(".\n")
	switch {
	case random.HitRate == nil || affinity.HitRate == nil:
		b.WriteString("The hit rate is unknown: start vLLM with --enable-prompt-tokens-details.\n")
	case *random.HitRate > 0 && affinity.TTFTP50 > 0 && len(random.shares) > 1:
		fmt.Fprintf(&b, "Prefix routing: %.1f times the hit rate of random routing, and the median first token in %.0f %% of the time.\n",
			*affinity.HitRate / *random.HitRate, 100*affinity.TTFTP50/random.TTFTP50)
	}
	if len(random.shares) == 1 {
		b.WriteString("With one instance there is nothing to route: the policies differ by chance only.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func rate(r *float64) string {
	if r == nil {
		return "unknown"
	}
	return percent(*r)
}

func percent(r float64) string { return fmt.Sprintf("%.1f %%", 100*r) }

func seconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.1f ms", 1000*s)
	}
	return fmt.Sprintf("%.2f s", s)
}

// shares shows each instance, or only the extremes when there are many.
func shares(all []float64) string {
	const most = 8
	if len(all) > most {
		return fmt.Sprintf("%.1f to %.1f %%", 100*slices.Min(all), 100*slices.Max(all))
	}
	parts := make([]string, len(all))
	for i, s := range all {
		parts[i] = fmt.Sprintf("%.1f", 100*s)
	}
	return strings.Join(parts, " ") + " %"
}
