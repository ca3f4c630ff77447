// Package trial runs a program on a fleet and measures how much of its prompts
// came from the instances' caches: what the examples for the SDKs have in
// common. [ModelOf] is for all programs that ask a fleet.
package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/examples/internal/ideal"
)

const (
	// Instances of the simulated fleet, and how many times as fast they are as
	// the simulator's default: what counts here is the hit rate.
	Instances = 4
	speed     = 20

	// leastRatio is the least share of what an endless cache would give. The
	// rest is lost where conversations begin alike on different instances.
	leastRatio = 0.8
)

// Trial is a program's access to the fleet. It is safe for concurrent use.
type Trial struct {
	Client    *client.Client
	Model     string // what the fleet serves
	Simulated bool

	mu       sync.Mutex
	endless  ideal.Cache
	requests int
	err      error
}

// Sending notes a request that is about to be sent, in the types of go-openai
// whatever the program sends it with: it is what an endless cache is asked.
func (t *Trial) Sending(request openai.ChatCompletionRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests++
	if err := t.endless.Add(request); err != nil && t.err == nil {
		t.err = err
	}
}

// Result is what came of a program.
type Result struct {
	Name      string
	Requests  int
	HitRate   float64 // of prompt tokens, as the engines report it, 0 to 1
	Ideal     float64 // what one cache without bounds would give, 0 to 1
	Simulated bool
	Stats     client.Stats
}

// Run runs a program on the instances that endpoints names, in the form of
// PREFIXWISE_ENDPOINTS, or on a simulated fleet when it is empty.
func Run(ctx context.Context, name, endpoints string, live func(context.Context, *Trial) error, options ...client.Option) (Result, error) {
	t := &Trial{Simulated: endpoints == ""}
	if t.Simulated {
		fleet := fleettest.New(Instances, fleettest.Config{TimeScale: speed})
		defer fleet.Close()
		options = append(options, client.WithEndpoints(fleet.URLs()...))
	} else {
		fleet, err := discovery.Parse(endpoints)
		if err != nil {
			return Result{}, err
		}
		options = append(options, client.WithResolver(fleet), client.WithAPIKey(os.Getenv("OPENAI_API_KEY")))
	}
	c, err := client.New(options...)
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	t.Client = c
	if t.Model, err = ModelOf(ctx, c, ""); err != nil {
		return Result{}, err
	}
	if err := errors.Join(live(ctx, t), t.err); err != nil {
		return Result{}, err
	}
	s := c.Stats()
	return Result{Name: name, Requests: t.requests, HitRate: s.HitRate(), Ideal: t.endless.HitRate(), Simulated: t.Simulated, Stats: s}, nil
}

// Ratio is the hit rate as a share of what an endless cache would give.
func (r Result) Ratio() float64 { return r.HitRate / max(r.Ideal, 1e-9) }

// String is one line, in columns so that the lines of several programs make a
// table.
func (r Result) String() string {
	fleet := fmt.Sprintf("%d instances", len(r.Stats.Endpoints))
	if r.Simulated {
		fleet = fmt.Sprintf("%d SIMULATED engines", len(r.Stats.Endpoints))
	}
	return fmt.Sprintf("%-24s %4d requests   hit rate %5.1f %%   infinite cache %5.1f %%   ratio %5.1f %%   %s",
		r.Name, r.Requests, 100*r.HitRate, 100*r.Ideal, 100*r.Ratio(), fleet)
}

// Check says why a result is not as it should be, or nil.
func (r Result) Check() error {
	inFlight := func(e client.EndpointStats) bool { return e.InFlight != 0 }
	switch {
	case r.Stats.Reporting == 0:
		return errors.New("the engines do not say what came from their caches: start vLLM with --enable-prompt-tokens-details")
	case slices.ContainsFunc(r.Stats.Endpoints, inFlight):
		return errors.New("requests are still counted as in flight: an answer was not read to its end, nor closed")
	case r.Ratio() < leastRatio:
		return fmt.Errorf("the hit rate is %.1f %% of what an infinite cache would give, less than the %.0f %% that it should be", 100*r.Ratio(), 100*leastRatio)
	}
	return nil
}
