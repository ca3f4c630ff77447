package affinity

import (
	"math"
	"time"
)

// Gauges are what an engine tells of itself, as polled from its metrics. vLLM's
// names are beside the fields. The counts are running totals.
type Gauges struct {
	Running, Waiting int // num_requests_running, num_requests_waiting

	PrefixQueries, PrefixHits uint64 // prefix_cache_queries_total, prefix_cache_hits_total, in tokens
	PromptTokens              uint64 // prompt_tokens_total
	FirstTokens               uint64 // time_to_first_token_seconds_count

	CacheTokens int // KV memory in tokens: cache_config_info's kv_cache_size_tokens, or num_gpu_blocks times block_size; 0 means unknown
}

// What is taken from readings, and for how long.
const (
	// gaugesValid is how long a reading is believed in. After three readings
	// that did not come, what it says is older than most of what it counted.
	gaugesValid = 4 * time.Second
	// seenAfter is how old a booking must be for a reading to show it: the
	// engine publishes once a step. Anything from 0.1 to 1 s does.
	seenAfter = 300 * time.Millisecond
	// Rates of requests are means over about a minute, the inflow that says
	// which endpoint gets too much over ten: what it steers moves homes, and
	// conversations should not follow every wave.
	rateMemory   = 60.0  // s
	inflowMemory = 600.0 // s
	// meanShrink is how many requests of the fleet's mean are mixed into an
	// endpoint's own mean of computed tokens per request.
	meanShrink = 3
)

// gauging is what is kept of one endpoint between readings; Router.mu guards it.
type gauging struct {
	backlog backlog
	// Decaying sums: over rateMemory of time, uncached tokens and requests, and
	// over inflowMemory of uncached tokens.
	time, tokens, begun float64
	inflow              float64
	memory              int
	until               time.Duration // the last reading is valid until then
}

// reading is what a pick sees of one endpoint's gauges. It never changes.
type reading struct {
	until  time.Duration // valid until then
	free   time.Duration // when the prefill is done that the engine had ahead of it
	inflow float64       // long-run inflow of computed tokens, as a multiple of the endpoint's share of the fleet's
}

// outlook is what a pick sees of the fleet as a whole. It never changes.
type outlook struct {
	until  time.Duration
	rate   float64 // requests a second and endpoint
	busy   float64 // part of the time that endpoints spend on prefill, at most maxBusy
	memory float64 // tokens of KV memory, of one endpoint on average; 0 unknown
}

// maxBusy keeps prices finite under overload.
const maxBusy = .95

// Observe takes the gauges of one endpoint, as just read. Call it about once a
// second for each endpoint, off the request path; the strategy Affinity knows
// by it what other clients have sent there. An endpoint of which nothing is
// heard for four seconds is judged by this router's own requests alone. IDs
// that are not in the set are ignored. It is safe for concurrent use.
func (r *Router) Observe(id string, g Gauges) {
	r.mu.Lock()
	defer r.unlock()
	t := r.tallies[id]
	if t == nil || t.left != 0 {
		return
	}
	now := r.clock()
	p := r.speed.pace()
	v := &t.gauging
	d := v.backlog.update(now, g, p)
	if d.restarted {
		t.number = r.nextNumber() // what it had before is gone
		r.publish()
	}
	v.memory, v.until = g.CacheTokens, now+gaugesValid
	fade, part := faded(d.elapsed, rateMemory)
	v.time = v.time*fade + d.elapsed*part
	v.tokens = v.tokens*fade + d.computed*part
	v.begun = v.begun*fade + d.begun*part
	fade, part = faded(d.elapsed, inflowMemory)
	v.inflow = v.inflow*fade + d.computed*part

	var sum gauging
	var weight, weights, sized float64
	for i := range r.members {
		m := &r.members[i]
		if m.ID == id {
			weight = float64(m.weight())
		}
		o := &r.tallies[m.ID].gauging
		if o.until < now || m.Draining { // a mean is of those that share the load
			continue
		}
		weights += float64(m.weight())
		sum.time += o.time
		sum.tokens += o.tokens
		sum.begun += o.begun
		sum.inflow += o.inflow
		if o.memory > 0 {
			sized++
			sum.memory += o.memory
		}
	}
	look := &outlook{until: now + gaugesValid}
	mean := 0.0 // uncached tokens of a request
	if sum.begun > 0 && sum.time > 0 {
		mean = sum.tokens / sum.begun
		look.rate = sum.begun / sum.time
		look.busy = min(maxBusy, look.rate*p.prefill(0, mean))
	}
	if sized > 0 {
		look.memory = float64(sum.memory) / sized
	}
	r.outlook.Store(look)

	own := (v.tokens + meanShrink*mean) / (v.begun + meanShrink)
	wait := min(v.backlog.left+float64(g.Waiting)*p.prefill(0, own), maxWait) // seconds of prefill ahead of the next request
	seen := &reading{until: now + gaugesValid, free: now + time.Duration(wait*1e9), inflow: 1}
	if sum.inflow > 0 {
		seen.inflow = v.inflow / (sum.inflow * weight / weights)
	}
	t.bookings.correct(now, wait)
	t.reading.Store(seen)

	if now >= r.swept {
		r.swept = now + sweepEvery
		r.heads.sweep()
	}
}

// maxWait, in seconds, is as good as for ever, and can still be added to a time.
const maxWait = 1e6

// faded returns what remains of a decaying sum after so many seconds, and which
// part of what came evenly in that time. Without the latter, the reading after a
// night in which nobody polled would outweigh all that follow it for minutes.
func faded(elapsed, memory float64) (before, within float64) {
	before = math.Exp(-elapsed / memory)
	if elapsed <= 0 {
		return before, 1
	}
	return before, memory * (1 - before) / elapsed
}

// sweepEvery is how often the counts of heads are added up.
const sweepEvery = time.Second

// wait returns the seconds that a request would wait on an endpoint before its
// prefill begins.
func (t *tally) wait(now time.Duration) float64 {
	if t.bookings.open.Load() > 0 {
		return t.bookings.queued(now)
	}
	return t.others(now)
}

// others returns the seconds of prefill that an endpoint has ahead of it, as last
// read, when all that this router has sent is computed.
func (t *tally) others(now time.Duration) float64 {
	if g := t.reading.Load(); g != nil && g.until >= now && g.free > now {
		return (g.free - now).Seconds()
	}
	return 0
}

// inflow returns an endpoint's long-run inflow over the mean, 1 if unknown.
func (t *tally) inflow(now time.Duration) float64 {
	if g := t.reading.Load(); g != nil && g.until >= now {
		return g.inflow
	}
	return 1
}
