package main

import (
	"fmt"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

// An instance is one simulated engine and what is known of it from outside.
type instance struct {
	engine  *vllmsim.Engine
	id      string
	flights map[vllmsim.ID]*flight
	gauges  vllmsim.Gauges // as GET /metrics would show them
	drains  bool
	number  int
}

// flight is a request on its way.
type flight struct {
	request *request
	client  *sender
	lease   affinity.Lease
	sent    time.Duration
	first   time.Duration // to the first token
	cached  int
}

// newInstance returns the n-th idle engine, which is a whole instance or one of
// its ranks. Unless the arm names it, its identity depends on the seed, so that
// each seed is another draw of which keys have their home where.
func newInstance(n, ranks int, a arm, cfg vllmsim.Config) (*instance, error) {
	engine, err := vllmsim.NewEngine(cfg)
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("http://sim-%d-%d:8000", a.seed, n/ranks)
	if n/ranks < len(a.names) {
		id = a.names[n/ranks]
	}
	if ranks > 1 {
		id += fmt.Sprintf("#%d", n%ranks)
	}
	return &instance{engine: engine, number: n, id: id, flights: map[vllmsim.ID]*flight{}}, nil
}

// engineConfig is the engine of a replay.
func engineConfig(s *settings, t *trace) vllmsim.Config {
	c := vllmsim.Config{
		CacheTokens: s.cache, TimeScale: s.speed,
		// As in the laboratory whose figures this is compared with: nothing is
		// preempted, and steps that only generate are counted in one go.
		ReserveOutput: true, DecodeStretch: 64,
	}
	s.engine.apply(&c)
	c.BlockTokens = t.block // the trace was cut for the engine
	whole := s.cache / t.block * t.block
	if c.MaxModelLen == 0 || c.MaxModelLen > whole {
		c.MaxModelLen = whole
	}
	return c
}

// submit queues a request at now.
func (i *instance) submit(now time.Duration, f *flight) error {
	id, err := i.engine.Submit(now, vllmsim.Request{
		PromptTokens: f.request.prompt, OutputTokens: f.request.output, Hashes: f.request.hashes,
	})
	if err != nil {
		return fmt.Errorf("the simulated engine refused a request: %w", err)
	}
	i.flights[id] = f
	return nil
}

// step ends the engine's step at now and starts the next one. The gauges are
// those of an engine that publishes once a step: what the next step has
// admitted is not in them.
func (i *instance) step(now time.Duration, emit func(*flight, vllmsim.Event)) {
	before := i.engine.Gauges()
	i.engine.Advance(now, func(e vllmsim.Event) {
		f := i.flights[e.ID]
		if e.Done {
			delete(i.flights, e.ID)
		}
		emit(f, e)
	})
	i.gauges = i.engine.Gauges()
	i.gauges.PrefixQueries, i.gauges.PrefixHits = before.PrefixQueries, before.PrefixHits
}

// A sender is one client process of the simulation. It routes by its own router,
// which knows of the other clients' requests only what the engines' gauges show.
type sender struct {
	router *affinity.Router
}

func newSender(o affinity.Options, now func() time.Time, seed uint64, fleet []affinity.Endpoint) (*sender, error) {
	o.Now, o.Seed = now, mix(seed)|1
	router, err := affinity.New(o)
	if err != nil {
		return nil, err
	}
	return &sender{router}, router.Set(fleet)
}
