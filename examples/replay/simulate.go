package main

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

// arm is one run: one policy, one number of clients, one placement.
type arm struct {
	policy  policy
	clients int
	seed    uint64
	names   []string           // of the instances; none: new ones for each seed
	asked   []affinity.Request // by position in the trace; none: what the trace says
}

// pollEvery is how often each client reads the gauges of all engines.
const pollEvery = time.Second

// epoch is when virtual time begins; any moment would do.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// errEndless is virtual time that goes backwards, since it has run over.
var errEndless = errors.New("the run would last for centuries: the engine is too slow for this traffic (-engine, -speed), or -rate is too low")

// simulation is an arm under way.
type simulation struct {
	settings  *settings
	trace     *trace
	arm       arm
	now       time.Duration
	fleet     []*instance
	byID      map[string]*instance
	clients   []*sender
	queue     events
	made      int
	pending   int        // arrivals in the queue
	held      []*request // arrivals that wait for a free place (-concurrency)
	inFlight  int
	idleSince time.Duration // with none in flight: since when
	asleep    []*sender     // clients that ask no gauges at the moment
	lots      *rand.Rand
	clientOf  []int          // by position in the trace
	last      map[int]string // by session: who served its last turn
	prefix    int            // characters that fixed-prefix hashes
	trial     trial
}

// simulate replays the trace and returns what came of it. It runs on one
// goroutine and in virtual time, so the same arm has the same result anywhere.
// watch, if not nil, is given a function that says how far it is.
func simulate(ctx context.Context, s *settings, t *trace, a arm, watch func(status func() string) (stop func())) (*trial, error) {
	sim := &simulation{settings: s, trace: t, arm: a, byID: map[string]*instance{}, last: map[int]string{},
		lots: rand.New(rand.NewPCG(a.seed, 2)), trial: trial{kind: simulated, arm: a}}
	sim.prefix = a.policy.prefixLength()
	if err := sim.prepare(); err != nil {
		return nil, err
	}
	var answered atomic.Int64
	if watch != nil {
		defer watch(func() string { return fmt.Sprintf("%d of %d answered", answered.Load(), len(t.requests)) })()
	}
	for n := 0; ; n++ {
		if n%4096 == 0 {
			answered.Store(int64(len(sim.trial.outcomes)))
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		var soonest *instance
		var at time.Duration
		for _, i := range sim.fleet {
			if end, busy := i.engine.Next(); busy && (soonest == nil || end < at) {
				soonest, at = i, end
			}
		}
		switch {
		case len(sim.queue) > 0 && (soonest == nil || sim.queue[0].at < at || sim.queue[0].at == at && sim.queue[0].kind == change):
			e := heap.Pop(&sim.queue).(event)
			if e.at < sim.now {
				return nil, errEndless
			}
			sim.now = e.at
			if err := sim.handle(e); err != nil {
				return nil, err
			}
		case soonest != nil:
			if at < sim.now {
				return nil, errEndless
			}
			sim.now = at
			soonest.step(at, sim.observe)
		default:
			return sim.finish(), nil
		}
	}
}

// prepare makes the fleet and the clients and queues what is known to happen.
func (s *simulation) prepare() error {
	for range s.settings.instances {
		if err := s.addInstance(); err != nil {
			return err
		}
	}
	for c := range s.arm.clients {
		client, err := newSender(s.arm.policy.forClients(s.arm.clients), s.clock, s.arm.seed<<8+uint64(c), s.endpoints())
		if err != nil {
			return err
		}
		s.clients = append(s.clients, client)
	}
	s.clientOf = assign(s.trace, s.arm, s.settings.sticky, s.lots)
	for _, r := range s.trace.opening() {
		s.arrive(r.at, r)
	}
	s.trial.window, s.trial.windowed = s.settings.window(s.trace)
	length := s.trace.duration()
	if f := s.settings.scaleAdd; f > 0 {
		s.push(event{at: time.Duration(f * float64(length)), kind: change, add: true})
	}
	if f := s.settings.scaleDel; f > 0 {
		s.push(event{at: time.Duration(f * float64(length)), kind: change})
	}
	if !s.arm.policy.noPolls {
		for _, c := range s.clients {
			s.push(event{at: time.Duration(s.lots.Float64() * float64(pollEvery)), kind: poll, client: c})
		}
	}
	return nil
}

// assign gives each request of the trace a client, by lot or by conversation.
func assign(t *trace, a arm, sticky bool, lots *rand.Rand) []int {
	clientOf := make([]int, len(t.requests))
	for i, r := range t.requests {
		clientOf[i] = lots.IntN(a.clients)
		if sticky {
			clientOf[i] = int(mix(uint64(r.session)^a.seed<<32) % uint64(a.clients))
		}
	}
	return clientOf
}

func (s *simulation) clock() time.Time { return epoch.Add(s.now) }

func (s *simulation) push(e event) {
	e.n = s.made
	s.made++
	heap.Push(&s.queue, e)
}

func (s *simulation) arrive(at time.Duration, r *request) {
	s.pending++
	s.push(event{at: at, kind: arrival, request: r})
}

// addInstance adds an engine for each rank of an instance.
func (s *simulation) addInstance() error {
	for range s.settings.ranks {
		i, err := newInstance(len(s.fleet), s.settings.ranks, s.arm, engineConfig(s.settings, s.trace))
		if err != nil {
			return err
		}
		s.fleet = append(s.fleet, i)
		s.byID[i.id] = i
	}
	return nil
}

func (s *simulation) endpoints() []affinity.Endpoint {
	var all []affinity.Endpoint
	for _, i := range s.fleet {
		all = append(all, affinity.Endpoint{ID: i.id, Draining: i.drains})
	}
	return all
}

func (s *simulation) handle(e event) error {
	switch e.kind {
	case change:
		if e.add {
			s.trial.changes = append(s.trial.changes, fleetChange{s.now, "an engine was added"})
			if err := s.addInstance(); err != nil {
				return err
			}
		} else {
			s.trial.changes = append(s.trial.changes, fleetChange{s.now, "an engine was drained"})
			for _, rank := range s.fleet[:s.settings.ranks] {
				rank.drains = true
			}
		}
		for _, c := range s.clients {
			if err := c.router.Set(s.endpoints()); err != nil {
				return err
			}
		}
	case poll:
		s.ask(e.client)
	case arrival:
		s.wake()
		return s.send(e.request)
	}
	return nil
}

// idleFor is how long nothing may be under way before the clients stop asking
// until something is: a log can have a night, or a year, in it.
const idleFor = time.Minute

// ask shows a client the gauges of all engines, and plans the next time.
func (s *simulation) ask(c *sender) {
	for _, i := range s.fleet {
		g := i.gauges
		c.router.Observe(i.id, affinity.Gauges{
			Running: g.Running, Waiting: g.Waiting, FirstTokens: g.FirstTokens,
			PrefixQueries: g.PrefixQueries, PrefixHits: g.PrefixHits,
			PromptTokens: g.PromptTokens,
			CacheTokens:  i.engine.Config().CacheTokens,
		})
	}
	switch {
	case s.inFlight == 0 && s.now-s.idleSince > idleFor:
		s.asleep = append(s.asleep, c)
	case s.pending > 0 || s.inFlight > 0:
		s.push(event{at: s.now + pollEvery, kind: poll, client: c})
	}
}

// wake lets the clients ask again that have stopped.
func (s *simulation) wake() {
	s.idleSince = s.now
	asleep := s.asleep
	s.asleep = nil
	for _, c := range asleep {
		s.ask(c)
	}
}

// send routes a request and hands it to the engine.
func (s *simulation) send(r *request) error {
	s.pending--
	if most := s.settings.concurrency; most > 0 && s.inFlight >= most {
		s.held = append(s.held, r)
		return nil
	}
	c := s.clients[s.clientOf[r.position]]
	var q affinity.Request
	if s.arm.asked != nil {
		q = s.arm.asked[r.position]
	} else {
		q = s.trace.routing(r, s.prefix)
	}
	if s.arm.policy.carried {
		q.Last = s.last[r.session]
	}
	lease, err := c.router.Pick(&q)
	if err != nil {
		return err
	}
	s.last[r.session] = lease.Endpoint()
	f := &flight{request: r, client: c, lease: lease, sent: s.now}
	i := s.byID[lease.Endpoint()]
	s.inFlight++
	return i.submit(s.now, f)
}

// observe is told what a step did for one request.
func (s *simulation) observe(f *flight, e vllmsim.Event) {
	if e.First {
		f.first, f.cached = e.At-f.sent, e.Cached
	}
	if !e.Done {
		return
	}
	f.lease.Release(affinity.Outcome{
		Status: 200, PromptTokens: f.request.prompt, CachedTokens: f.cached,
		FirstByte: f.first, Total: e.At - f.sent, Remote: true,
	})
	s.inFlight--
	s.idleSince = s.now
	s.trial.outcomes = append(s.trial.outcomes, outcome{
		request: f.request.position, sent: f.sent, first: f.first, total: e.At - f.sent, prompt: f.request.prompt, cached: f.cached, output: f.request.output,
		instance: s.byID[f.lease.Endpoint()].number, overflow: f.lease.Reason().Overflow(), attempts: 1,
	})
	if next := f.request.next; next != nil {
		at := e.At + f.request.think
		if h := s.settings.horizon; h == 0 || at < h {
			s.arrive(at, next)
		}
	}
	if len(s.held) > 0 {
		s.arrive(e.At, s.held[0])
		s.held = s.held[1:]
	}
}

// finish adds what the engines counted.
func (s *simulation) finish() *trial {
	for _, i := range s.fleet {
		g := i.engine.Gauges()
		s.trial.instances = append(s.trial.instances, served{name: i.id, queries: float64(g.PrefixQueries), hits: float64(g.PrefixHits), counted: true})
	}
	return &s.trial
}
