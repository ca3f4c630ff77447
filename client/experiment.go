package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/middleware"
)

// WithExperiment sends a fraction of the conversations, above 0 and below 1, by
// another strategy, the control, and compares the two on live traffic; see
// [Client.Experiment]. A conversation (by its root, or its session) is in the
// same arm in every turn and every process. Requests without a prompt are in
// neither, nor are those with a cache key that [FixedPrefix] refuses where that
// is one of the strategies: they go by the client's own.
//
// Both arms use the same engines, with one count of what is in flight: each
// finds what the other has left in the caches and loses what the other pushes
// out. Two fleets, one for each strategy, would therefore differ more, as a rule.
//
// The default is no experiment.
func WithExperiment(control Strategy, fraction float64) Option {
	return optionFunc(func(c *config) { c.control, c.fraction, c.experiment = control, fraction, true })
}

// Experiment compares the two arms of [WithExperiment].
type Experiment struct {
	// Since is when it began: when the client was made, or its strategy was
	// changed last.
	Since time.Time `json:"since"`
	// Fraction is the part of conversations in the control arm.
	Fraction float64 `json:"fraction"`
	// Treatment is the arm of the client's own strategy.
	Treatment Arm `json:"treatment"`
	Control   Arm `json:"control"`
	// HitRate, FirstToken and Throughput are the treatment's less the control's.
	HitRate    Estimate `json:"hit_rate"`
	FirstToken Estimate `json:"first_token"`
	Throughput Estimate `json:"throughput"`
}

// Arm is one arm of an experiment. Its figures come from whole conversations:
// all, or up to 4,096 of them, chosen by hash. Their 95 % intervals take the
// conversation for what varies independently, not the call.
type Arm struct {
	Strategy Strategy `json:"strategy"`
	// Conversations is how many there are in the sample. Calls counts all
	// that have ended and were not canceled, Failed those of them that got no
	// answer, or an error response.
	Conversations int    `json:"conversations"`
	Calls         uint64 `json:"calls"`
	Failed        uint64 `json:"failed"`
	// HitRate is the cached part of the prompt tokens, 0 to 1, where engines
	// told both (delta method over conversations).
	HitRate Estimate `json:"hit_rate"`
	// FirstToken is the median time to the first content of a stream, in
	// seconds (order statistics, Woodruff's interval over conversations).
	FirstToken Estimate `json:"first_token"`
	// Throughput is the completion tokens per second of a call's time, from its
	// begin to the end of its answer (delta method over conversations).
	Throughput Estimate `json:"throughput"`
}

// Experiment reports what the experiment has shown so far, nil without
// [WithExperiment] and with PREFIXWISE_DISABLED=1. It takes some milliseconds.
func (c *Client) Experiment() *Experiment {
	if c.collector.experiment == nil {
		return nil
	}
	return c.collector.experiment.report()
}

// experiment assigns conversations to arms and collects what becomes of them.
type experiment struct {
	control  Strategy
	fraction float64
	below    uint64 // lots below are in the control arm
	router   *affinity.Router

	mu    sync.Mutex
	since time.Time
	arms  [2]arm // treatment, control
}

func newExperiment(router *affinity.Router, control Strategy, fraction float64) *experiment {
	return &experiment{
		control: control, fraction: fraction, router: router, since: time.Now(),
		below: uint64(fraction * math.Exp2(64)),
	}
}

// reset forgets what was collected, since the treatment is another one now.
func (e *experiment) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.since, e.arms = time.Now(), [2]arm{}
}

// strategy is the strategy of a call, "" for the client's own.
func (e *experiment) strategy(req *affinity.Request) affinity.Strategy {
	if l := e.lot(req); l != 0 && l < e.below {
		return e.control
	}
	return ""
}

// lot is the random-looking number of a conversation, 0 if it has none, or if
// one of the arms could not serve it at all. It has a domain of its own: the
// arm must not depend on where a conversation's home is.
func (e *experiment) lot(req *affinity.Request) uint64 {
	_, root := req.Keys()
	fixed := e.control == FixedPrefix || e.router.Strategy() == FixedPrefix
	if root == 0 || fixed && affinity.CheckRoutingID(req.CacheKey) != nil {
		return 0
	}
	var words [16]byte
	copy(words[:8], "pw1:expt")
	binary.LittleEndian.PutUint64(words[8:], root)
	return xxhash.Sum64(words[:])
}

// done takes a call that has ended.
func (e *experiment) done(d *middleware.Done) {
	l := e.lot(&affinity.Request{Root: d.Root, Session: d.Session, Tenant: d.Tenant, CacheKey: d.CacheKey})
	if l == 0 || d.Reason == affinity.ReasonSticky.String() || errors.Is(d.Err, context.Canceled) {
		return
	}
	i, strategy := 0, e.router.Strategy()
	if l < e.below {
		i, strategy = 1, e.control
	}
	if d.Strategy != string(strategy) { // begun before the strategy was changed
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	a := &e.arms[i]
	a.calls++
	if d.Err != nil || d.Status >= 400 {
		a.failed++
		return
	}
	if c := a.of(l); c != nil {
		c.add(d)
	}
}

func (e *experiment) report() *Experiment {
	e.mu.Lock() // as short as can be: calls wait for it at their end
	r := &Experiment{Since: e.since, Fraction: e.fraction}
	treatment, control := e.arms[0].copy(), e.arms[1].copy()
	e.mu.Unlock()
	r.Treatment, r.Control = treatment.report(e.router.Strategy()), control.report(e.control)
	r.HitRate = r.Treatment.HitRate.minus(r.Control.HitRate)
	r.FirstToken = r.Treatment.FirstToken.minus(r.Control.FirstToken)
	r.Throughput = r.Treatment.Throughput.minus(r.Control.Throughput)
	return r
}

// Enough tells whether both arms have the thirty conversations from which on
// the intervals can be relied on.
func (e *Experiment) Enough() bool {
	return e != nil && min(e.Treatment.Conversations, e.Control.Conversations) >= enoughConversations
}

// String writes the comparison as a table for people.
func (e *Experiment) String() string {
	if e == nil {
		return "no experiment\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %-30s %-30s %s\n", "", e.Treatment.head(), e.Control.head(), "difference")
	row := func(name string, of func(Arm) Estimate, difference Estimate, write func(float64) string, unit string) {
		fmt.Fprintf(&b, "%-20s %-30s %-30s %s\n", name+" ("+unit+")",
			of(e.Treatment).text(write), of(e.Control).text(write), difference.text(write))
	}
	row("hit rate", func(a Arm) Estimate { return a.HitRate }, e.HitRate, percent, "%")
	row("first token P50", func(a Arm) Estimate { return a.FirstToken }, e.FirstToken, milliseconds, "ms")
	row("throughput", func(a Arm) Estimate { return a.Throughput }, e.Throughput, whole, "tokens/s")
	b.WriteString("with 95 % intervals over conversations")
	if !e.Enough() {
		fmt.Fprintf(&b, "; fewer than %d conversations in an arm are too few to rely on them", enoughConversations)
	}
	b.WriteString("\n")
	return b.String()
}

func (a Arm) head() string { return fmt.Sprintf("%s (%d conversations)", a.Strategy, a.Conversations) }

func (e Estimate) text(write func(float64) string) string {
	switch e.Conversations {
	case 0:
		return "unknown"
	case 1:
		return write(e.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", write(e.Value), write(e.Low), write(e.High))
}

func percent(v float64) string      { return fmt.Sprintf("%.1f", 100*v) }
func milliseconds(v float64) string { return fmt.Sprintf("%.1f", 1000*v) }
func whole(v float64) string        { return fmt.Sprintf("%.0f", v) }
