package affinity

import "time"

// backlog estimates how many seconds of prefill one engine has ahead of it,
// from its gauges. It is told of each reading in turn and depends on nothing
// else.
//
// vLLM counts a prompt in prefix_cache_queries when it is admitted, and in
// prompt_tokens when its first token is there. Between the two it is being
// computed, and no gauge says how far (internal/e2e/README.md has the
// recordings). So what is admitted is added, time that passes is taken off, and
// the two counters tell when nothing is left. What waits for admission is known
// by number only and is priced by the mean.
type backlog struct {
	known bool
	at    time.Duration
	last  Gauges
	left  float64 // seconds of prefill of the prompts that are admitted
	idle  least   // of queries − prompt tokens
}

// progress is what happened between two readings.
type progress struct {
	elapsed   float64 // seconds; 0 for the first reading
	computed  float64 // uncached tokens of the prompts that were admitted
	begun     float64 // prompts that reached their first token
	restarted bool    // the engine was, and has nothing cached
}

// leastLeft is taken for a prompt of which all that is known is that it is not
// over: about one step of an engine.
const leastLeft = .02

// update takes the next reading, at a time since any fixed moment.
func (b *backlog) update(at time.Duration, g Gauges, p pace) progress {
	last := b.last
	restarted := b.known && (g.PrefixQueries < last.PrefixQueries || g.PromptTokens < last.PromptTokens || g.FirstTokens < last.FirstTokens)
	if restarted {
		*b = backlog{}
	}
	open := float64(g.PrefixQueries) - float64(g.PromptTokens)
	if g.Running == 0 {
		// Prompts that were aborted while they were computed stay in the
		// difference for good, so its zero is where an idle engine has it.
		b.idle = least{}
	}
	open -= b.idle.observe(at, open)
	if !b.known {
		b.known, b.at, b.last = true, at, g
		return progress{restarted: restarted}
	}
	queried := float64(g.PrefixQueries - last.PrefixQueries)
	hit := float64(g.PrefixHits) - float64(last.PrefixHits)
	// An engine that was restarted may have counted past where it was.
	hit = max(0, min(hit, queried))
	d := progress{elapsed: (at - b.at).Seconds(), computed: queried - hit, begun: float64(g.FirstTokens - last.FirstTokens)}
	b.at, b.last = at, g
	if open < 1 {
		b.left = 0
		return d
	}
	passed := d.elapsed
	if b.left == 0 {
		passed /= 2 // it was idle, and began at some moment in between
	}
	prompts := max(1, d.begun)
	b.left = max(leastLeft, b.left+prompts*p.prefill(hit/prompts, queried/prompts)-passed)
	if prompts == 1 {
		b.left = min(b.left, p.prefill(0, open))
	}
	return d
}

// idleMemory is how long the smallest difference is believed in. An engine that
// is never idle touches its true zero between two prompts; under overload no
// reading may meet that moment for minutes.
const idleMemory = 5 * time.Minute

// least is the smallest value of the last idleMemory to twice that.
type least struct {
	known     bool
	since     time.Duration
	now, past float64
}

func (l *least) observe(at time.Duration, v float64) float64 {
	switch {
	case !l.known:
		*l = least{known: true, since: at, now: v, past: v}
	case at-l.since >= idleMemory:
		l.since, l.past, l.now = at, l.now, v
	default:
		l.now = min(l.now, v)
	}
	return min(l.now, l.past)
}
