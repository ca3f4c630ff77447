package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/prefixwise/prefixwise/examples/internal/progress"
)

// replay does what the settings ask for.
func replay(ctx context.Context, s *settings, stdout, stderr io.Writer) error {
	c := &comparison{settings: s, stdout: stdout, stderr: stderr}
	var err error
	switch {
	case s.anonymize != "":
		return anonymize(s, stderr)
	case len(s.endpoints) > 0:
		err = c.measureAll(ctx)
	default:
		err = c.simulateAll(ctx)
	}
	if err != nil {
		return err
	}
	return c.conclude()
}

// comparison is the arms of one invocation and what came of them.
type comparison struct {
	settings       *settings
	stdout, stderr io.Writer
	trace          *trace     // as the simulated engines see it
	infinite       float64    // hit rate of a cache without bounds
	fleet          *realFleet // nil: simulated only
	rows           []*row
}

// row is one policy with one number of clients.
type row struct {
	policy    policy
	clients   int
	results   []result
	curves    curves
	predicted []result // beside a measurement
}

// row returns that of a policy, and makes it the first time.
func (c *comparison) row(p policy, clients int) *row {
	for _, r := range c.rows {
		if r.policy.name == p.name && r.clients == clients {
			return r
		}
	}
	r := &row{policy: p, clients: clients}
	c.rows = append(c.rows, r)
	return r
}

// add sums up a trial, and prints it with -json.
func (c *comparison) add(to *[]result, t *trial) error {
	r := t.result()
	r.InfiniteHitRate = c.infinite
	*to = append(*to, r)
	if c.settings.json {
		return json.NewEncoder(c.stdout).Encode(r)
	}
	return nil
}

// watch shows how far a trial is, where somebody looks.
func (c *comparison) watch(title string, status func() string) (stop func()) {
	if c.settings.quiet || !c.settings.progress && !progress.IsTerminal(c.stderr) {
		return func() {}
	}
	return progress.Show(c.stderr, title, status)
}

// simulateAll simulates every arm, with one hash placement after the other.
func (c *comparison) simulateAll(ctx context.Context) error {
	s := c.settings
	t, err := s.load(s.cache / 10 * 9) // a tenth stays free, so that the longest prompt does not have to be alone
	if err != nil {
		return err
	}
	t.complain(c.stderr)
	c.trace = t.refined(s.blockOf(t.block))
	c.infinite = c.trace.infiniteHitRate()
	c.printHead(t)
	for _, clients := range s.clients {
		for _, p := range s.policies {
			r := c.row(p, clients)
			for n := range s.seeds {
				a := arm{policy: p, clients: clients, seed: s.seed + uint64(n), names: s.names}
				title := fmt.Sprintf("%s, clients: %d, placement %d of %d", p.name, clients, n+1, s.seeds)
				trial, err := simulate(ctx, s, c.trace, a, func(status func() string) func() { return c.watch(title, status) })
				if err != nil {
					return err
				}
				r.curves.add(trial)
				if err := c.add(&r.results, trial); err != nil {
					return err
				}
			}
			c.printRow(r)
		}
	}
	return nil
}

// blockOf is the size of block to simulate with: that of -engine, or the trace's.
func (s *settings) blockOf(trace int) int {
	if b := int(s.engine["block"]); b > 0 {
		return b
	}
	return trace
}

// contextMargin is what a prompt made of words may be longer than meant.
const contextMargin = 64

// predictions is how often each measurement is simulated: with the homes that
// its prompts had, and with other lots for what is left to chance.
const predictions = 5

// measureAll runs every arm on real instances and simulates it too. The arms
// alternate, so that what changes on the machines meanwhile meets all of them.
func (c *comparison) measureAll(ctx context.Context) error {
	s := c.settings
	f, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer f.close()
	c.fleet = f
	if !s.given["cache"] && f.cache > 0 {
		s.cache = min(f.cache, mostCache/s.instances) / s.ranks
	}
	longest := s.cache / 10 * 9
	if f.contextLen > 0 {
		longest = min(longest, f.contextLen-contextMargin)
	}
	t, err := s.load(longest)
	if err != nil {
		return err
	}
	t.complain(c.stderr)
	if err := f.calibrate(ctx); err != nil {
		return err
	}
	block := s.blockOf(cmp.Or(f.block, t.block))
	c.trace = t.refined(block)
	c.infinite = c.trace.infiniteHitRate()
	err = c.measureArms(ctx, t, block)
	if len(c.rows) > 0 { // also of what was interrupted
		c.printHead(t)
	}
	for _, r := range c.rows {
		c.printRow(r)
	}
	return err
}

func (c *comparison) measureArms(ctx context.Context, t *trace, block int) error {
	s, layouts := c.settings, t.layouts()
	for n := range s.seeds {
		for _, clients := range s.clients {
			for _, p := range s.policies {
				a := arm{policy: p, clients: clients, seed: s.seed + uint64(n)}
				title := fmt.Sprintf("%s, clients: %d, run %d of %d", p.name, clients, n+1, s.seeds)
				trial, err := measure(ctx, s, t, layouts, c.fleet, a, func(status func() string) func() { return c.watch(title, status) })
				if err != nil {
					return err
				}
				if len(c.rows) == 0 && c.trace.learn(trial, block) {
					c.infinite = c.trace.infiniteHitRate()
				}
				r := c.row(p, clients)
				r.curves.add(trial)
				if err := c.add(&r.results, trial); err != nil {
					return err
				}
				a.names, a.asked = c.fleet.names(), trial.arm.asked
				for k := range predictions {
					a.seed = s.seed + uint64(n*predictions+k)
					if trial, err = simulate(ctx, s, c.trace, a, nil); err != nil {
						return err
					}
					trial.kind = predicted
					if err := c.add(&r.predicted, trial); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// conclude says what follows from the results, and writes the report.
func (c *comparison) conclude() error {
	v := c.verdict()
	if !c.settings.json {
		fmt.Fprintf(c.stdout, "\n%s\n", v)
	}
	if c.settings.html != "" {
		return c.writeReport(v)
	}
	return nil
}
