package main

import (
	"fmt"
	"strings"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

// What a verdict calls worth it. Below, a change of the traffic or of the fleet
// would matter more.
const (
	worthTTFT  = .05 // of the mean time to first token
	worthHits  = .03 // of the prompt tokens
	fewShared  = .05 // hit rate of an infinite cache: nothing is shared
	shortWords = 512 // tokens: a prompt that is computed faster than it is worth
	nearlyAll  = .95 // of what an infinite cache would hit
)

// usesPrefixes tells the strategies that look at the prompt from the others.
func usesPrefixes(s affinity.Strategy) bool {
	switch s {
	case affinity.Random, affinity.RoundRobin, affinity.LeastOutstanding:
		return false
	}
	return true
}

// verdict answers whether prefix routing pays for this traffic on this fleet. It
// looks at the most clients, which know least of one another.
func (c *comparison) verdict() string {
	s := c.settings
	if c.caches() == 1 {
		return "Prefix routing does not pay here: there is one instance, so there is nothing to choose."
	}
	if c.fleet != nil && c.fleet.uncached {
		return "Prefix routing does not pay here as it is: an instance has prefix caching turned off (vLLM: --enable-prefix-caching)."
	}
	var with, without *row
	clients := s.clients[0]
	for _, n := range s.clients {
		clients = max(clients, n)
	}
	ttft := func(r *row) float64 { return average(r.results, func(r result) float64 { return r.TTFTMean }) }
	for _, r := range c.rows {
		best := &without
		if usesPrefixes(r.policy.options.Strategy) {
			best = &with
		}
		if r.clients == clients && (*best == nil || ttft(r) < ttft(*best)) {
			*best = r
		}
	}
	if with == nil || without == nil {
		return "No verdict: it takes a policy with prefixes and one without, such as -policies least-outstanding,affinity."
	}
	// Where it is as good as the best, the default is the answer.
	for _, r := range c.rows {
		if r.policy.options.Strategy == affinity.Affinity && r.clients == clients && ttft(r) <= (1+worthTTFT)*ttft(with) {
			with = r
		}
	}
	hit := func(r *row) float64 { return average(r.results, func(r result) float64 { return r.HitRate }) }
	prompt := average(with.results, func(r result) float64 { return float64(r.PromptTokens) / float64(max(r.Requests, 1)) })
	faster := 1 - ttft(with)/max(ttft(without), 1e-9)
	noise := spread(each(with.results, func(r result) float64 { return r.TTFTMean })) + spread(each(without.results, func(r result) float64 { return r.TTFTMean }))
	figures := fmt.Sprintf("%s hits %.1f %% of the prompt tokens and %s %.1f %%; the mean time to first token is %s instead of %s",
		with.policy.name, 100*hit(with), without.policy.name, 100*hit(without), inSeconds(ttft(with)), inSeconds(ttft(without)))
	several := len(with.results) > 1 // of one run the spread is not known
	worth := several && faster >= worthTTFT && ttft(without)-ttft(with) > noise || hit(with)-hit(without) >= worthHits && faster > 0
	if worth {
		return c.pays(with, without, figures, faster, hit(with)-hit(without))
	}
	why := "the gain is no larger than the chance of where hashes put things"
	switch {
	case c.infinite < fewShared:
		why = fmt.Sprintf("the prompts have next to nothing in common (an infinite cache would hit %.1f %%)", 100*c.infinite)
	case hit(without) >= nearlyAll*c.infinite:
		why = fmt.Sprintf("wherever a request goes, its prefix is there already (%.1f %% hit, %.1f %% is all that can)", 100*hit(without), 100*c.infinite)
	case prompt < shortWords:
		why = fmt.Sprintf("the prompts are short (%.0f tokens in the mean), so there is little to compute", prompt)
	case faster <= 0:
		why = "the first token comes no sooner"
	case !several && faster >= worthTTFT:
		why = "the hits are much the same, and of a single run nobody can tell whether the shorter wait is chance; -seeds 5 can"
	}
	return fmt.Sprintf("Prefix routing does not pay here: %s.\n%s.", why, upper(figures))
}

// pays says how much, and with which setting.
func (c *comparison) pays(with, without *row, figures string, faster, hits float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Prefix routing pays here: %s (%.0f %% less).\n", figures, 100*faster)
	p90 := func(r *row) float64 { return average(r.results, func(r result) float64 { return r.TTFT90 }) }
	fmt.Fprintf(&b, "P90: %s instead of %s.", inSeconds(p90(with)), inSeconds(p90(without)))
	tokens := average(with.results, func(r result) float64 { return float64(r.PromptTokens) }) * hits
	if c.fleet == nil || c.settings.given["engine"] {
		fmt.Fprintf(&b, " %.0f seconds of prefill are saved in all, of %.0f (at %.0f µs a token).", tokens*c.perToken(),
			average(without.results, func(r result) float64 { return float64(r.PromptTokens) * (1 - r.HitRate) })*c.perToken(), 1e6*c.perToken())
	} else {
		fmt.Fprintf(&b, " %.0f tokens of prefill are saved in all.", tokens)
	}
	b.WriteString("\nSetting: ")
	switch o := with.policy.options; o.Strategy {
	case affinity.Affinity:
		b.WriteString("the default, client.WithStrategy(client.Affinity).")
	case affinity.FixedPrefix:
		fmt.Fprintf(&b, "client.WithStrategy(client.FixedPrefix), client.WithFixedPrefix(%d, …); a gateway that takes a prefix length is to have the same.", with.policy.prefixLength())
	default:
		fmt.Fprintf(&b, "%s.", with.policy.name)
	}
	if with.policy.options.Strategy != affinity.Affinity {
		for _, r := range c.rows {
			if r.policy.options.Strategy == affinity.Affinity && r.clients == with.clients {
				fmt.Fprintf(&b, " The default, affinity, has %s.", inSeconds(average(r.results, func(r result) float64 { return r.TTFTMean })))
				break
			}
		}
	}
	if c.settings.sweep {
		fmt.Fprintf(&b, "\nOf the lengths for fixed-prefix, %d is best.", c.bestLength(with.clients))
	}
	if c.fleet == nil {
		b.WriteString("\nThis is simulated; -endpoints measures it.")
	}
	return b.String()
}

// bestLength is that of fixed-prefix with the shortest time to first token.
func (c *comparison) bestLength(clients int) int {
	length, least := 0, 0.0
	for _, r := range c.rows {
		mean := average(r.results, func(r result) float64 { return r.TTFTMean })
		if r.policy.options.Strategy == affinity.FixedPrefix && r.clients == clients && (length == 0 || mean < least) {
			length, least = r.policy.prefixLength(), mean
		}
	}
	return length
}

// caches is how many there are to choose from.
func (c *comparison) caches() int { return c.settings.instances * c.settings.ranks }

// perToken is how long the simulated engine computes a token of a prompt, in
// seconds, attention to what stands before it aside.
func (c *comparison) perToken() float64 {
	t := c.settings.engine["prefill_token"]
	if t == 0 {
		t = 1 / vllmsim.DefaultPrefillTokensPerSecond
	}
	return t / c.settings.speed
}

func inSeconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.0f ms", 1000*s)
	}
	return fmt.Sprintf("%.2f s", s)
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
