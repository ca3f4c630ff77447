package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/prefixwise/prefixwise/examples/internal/progress"
)

// replay runs every arm and prints the results.
func replay(ctx context.Context, s *settings, stdout, stderr io.Writer) error {
	if s.anonymize != "" {
		return anonymize(s, stderr)
	}
	if len(s.endpoints) > 0 {
		return replayLive(ctx, s, stdout, stderr)
	}
	t, err := s.load(s.cache / 10 * 9) // a tenth stays free, so that the longest prompt does not have to be alone
	if err != nil {
		return err
	}
	t.complain(stderr)
	t = t.refined(s.blockOf(t.block))
	out := &output{w: stdout, settings: s, infinite: t.infiniteHitRate()}
	out.head(t)
	for _, clients := range s.clients {
		for _, p := range s.policies {
			var results []result
			for n := range s.seeds {
				a := arm{policy: p, clients: clients, seed: s.seed + uint64(n)}
				began := time.Now()
				trial, err := simulate(ctx, s, t, a)
				if err != nil {
					return err
				}
				if !s.quiet {
					fmt.Fprintf(stderr, "%s, %d clients, placement %d of %d: %.1f s\n", p.name, clients, n+1, s.seeds, time.Since(began).Seconds())
				}
				r, err := out.add(trial)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			out.row(results)
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

// replayLive runs every arm on real instances and simulates it too. The arms
// alternate, so that what changes on the machines meanwhile meets all of them.
func replayLive(ctx context.Context, s *settings, stdout, stderr io.Writer) error {
	f, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer f.close()
	if !s.given["cache"] && f.cache > 0 {
		s.cache = f.cache
	}
	longest := s.cache / 10 * 9
	if f.contextLen > 0 {
		longest = min(longest, f.contextLen-contextMargin)
	}
	t, err := s.load(longest)
	if err != nil {
		return err
	}
	t.complain(stderr)
	if err := f.calibrate(ctx); err != nil {
		return err
	}
	block := s.blockOf(cmp.Or(f.block, t.block))
	fine := t.refined(block)
	layouts := t.layouts()
	out := &output{w: stdout, settings: s, infinite: fine.infiniteHitRate(), fleet: f}
	out.head(t)
	type rows struct{ measured, predicted []result }
	all := map[string]*rows{}
	for n := range s.seeds {
		for _, clients := range s.clients {
			for _, p := range s.policies {
				a := arm{policy: p, clients: clients, seed: s.seed + uint64(n)}
				var stop func()
				real, err := measure(ctx, s, t, layouts, f, a, func(status func() string) {
					if !s.quiet {
						stop = progress.Show(stderr, fmt.Sprintf("%s, %d clients, run %d of %d", p.name, clients, n+1, s.seeds), status)
					}
				})
				if stop != nil {
					stop()
				}
				if err != nil {
					return err
				}
				if n == 0 && fine.learn(real, block) {
					out.infinite = fine.infiniteHitRate()
				}
				key := fmt.Sprint(p.name, clients)
				if all[key] == nil {
					all[key] = &rows{}
				}
				r, err := out.add(real)
				if err != nil {
					return err
				}
				all[key].measured = append(all[key].measured, r)
				for k := range predictions {
					a.seed = s.seed + uint64(n*predictions+k)
					guess, err := simulate(ctx, s, fine, a)
					if err != nil {
						return err
					}
					guess.kind = predicted
					if r, err = out.add(guess); err != nil {
						return err
					}
					all[key].predicted = append(all[key].predicted, r)
				}
			}
		}
	}
	for _, clients := range s.clients {
		for _, p := range s.policies {
			r := all[fmt.Sprint(p.name, clients)]
			out.row(r.measured)
			out.row(r.predicted)
		}
	}
	return nil
}

// predictions is how many hash placements are simulated for each measurement,
// which is one draw of them.
const predictions = 5

// contextMargin is what a prompt made of words may be longer than meant.
const contextMargin = 64

// output prints results as they come.
type output struct {
	w        io.Writer
	settings *settings
	infinite float64
	fleet    *realFleet // nil: simulated
}

// add sums up a trial, and prints it with -json.
func (o *output) add(t *trial) (result, error) {
	r := t.result()
	r.InfiniteHitRate = o.infinite
	if o.settings.json {
		return r, json.NewEncoder(o.w).Encode(r)
	}
	return r, nil
}

func (o *output) head(t *trace) {
	if !o.settings.json {
		printHead(o.w, o.settings, t, o.infinite, o.fleet)
	}
}

func (o *output) row(results []result) {
	if !o.settings.json {
		printRow(o.w, results, o.fleet != nil)
	}
}
