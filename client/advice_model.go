package client

import (
	"container/list"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// model replays a sample on instances that have nothing but a cache: what
// would be found there if requests went by one rule or another. Caches hold
// what lies between two boundaries of a prompt whole or not at all.
type model struct {
	calls     []sampled
	instances int
	capacity  int     // bytes of prompt that one instance caches; 0: without bounds
	rate      float64 // part of the traffic that the sample is: load and capacity are scaled to it
}

// modelled is what a rule comes to.
type modelled struct {
	hit   float64 // part of the prompts' bytes found in caches, 0 to 1
	share float64 // of the calls, at the instance with the most
	work  float64 // bytes computed at the instance with the most, over an equal part of all bytes
}

// rule says where a call goes.
type rule func(m *modelRun, c *sampled) int

// modelRun is one replay.
type modelRun struct {
	*model
	caches []modelCache
	ends   [][]time.Time // of what is in flight, by instance
	mean   float64       // in flight at an instance, on average
	prompt float64       // bytes of a prompt, on average
	places map[uint64]placing
	lots   *rand.Rand
}

func (m *model) run(r rule) modelled {
	run := &modelRun{
		model: m, caches: make([]modelCache, m.instances), ends: make([][]time.Time, m.instances),
		places: map[uint64]placing{}, lots: rand.New(rand.NewPCG(1, 2)), // any: the same for the same sample
	}
	for i := range m.calls {
		run.prompt += float64(m.calls[i].bytes()) / float64(len(m.calls))
	}
	var hit, all float64
	counts, computed := make([]int, m.instances), make([]float64, m.instances)
	for i := range m.calls {
		c := &m.calls[i]
		inFlight := 0
		for k, ends := range run.ends {
			run.ends[k] = slices.DeleteFunc(ends, func(end time.Time) bool { return !end.After(c.begun) })
			inFlight += len(run.ends[k])
		}
		run.mean = float64(inFlight+1) / float64(m.instances)
		at := r(run, c)
		counts[at]++
		run.ends[at] = append(run.ends[at], c.begun.Add(c.total))
		found, size := float64(run.caches[at].use(c.marks, int(float64(m.capacity)*m.rate))), float64(c.bytes())
		hit, all, computed[at] = hit+found, all+size, computed[at]+size-found
		for _, k := range c.marks {
			run.places[k.hash] = run.places[k.hash].with(at)
		}
	}
	all = max(all, 1)
	return modelled{
		hit: hit / all, share: float64(slices.Max(counts)) / float64(max(len(m.calls), 1)),
		work: slices.Max(computed) / (all / float64(m.instances)),
	}
}

// together is one cache for everything: what there is to be found at all.
func together(*modelRun, *sampled) int { return 0 }

func byLot(m *modelRun, _ *sampled) int { return m.lots.IntN(m.instances) }

// crowded tells whether an instance has more in flight than a limit, which
// counts for the whole of the traffic.
func (m *modelRun) crowded(at int, limit float64) bool {
	return float64(len(m.ends[at])) >= max(1, limit*m.rate)
}

func (m *modelRun) idlest() int {
	least := m.lots.IntN(m.instances) // ties by lot
	for i := range m.ends {
		if len(m.ends[i]) < len(m.ends[least]) {
			least = i
		}
	}
	return least
}

// byConversation is the strategy Affinity, simplified: the conversation's own
// instance, or one that has so much more of the prompt that leaving pays, unless
// that has a quarter more than its share, and more than a few, in flight.
func byConversation(m *modelRun, c *sampled) int {
	home := at(c.root, m.instances)
	if c.root == 0 {
		home = m.idlest()
	}
	best, there := home, 0 // bytes that home has
	for _, k := range slices.Backward(c.marks) {
		p, known := m.places[k.hash]
		if known && p.n > len(p.who) { // too many have it to tell them apart
			there = k.bytes
			break
		}
		if known && slices.Contains(p.who[:p.n], uint16(home)) {
			there = k.bytes
			break
		}
	}
	most := leavingPays * m.prompt
	for _, k := range slices.Backward(c.marks) {
		if k.bytes <= there {
			break
		}
		p := m.places[k.hash]
		for _, who := range p.who[:min(p.n, len(p.who))] {
			more := float64(len(m.ends[who])-len(m.ends[home])) / m.rate
			if gain := float64(k.bytes-there) - leavingPays*m.prompt*more; gain > most {
				best, most = int(who), gain
			}
		}
	}
	if limit := max(modelFloor, 1.25*m.mean/m.rate); m.crowded(best, limit) {
		return m.idlest()
	}
	return best
}

// leavingPays is what leaving home must gain, and what each request that is in
// flight there and not at home counts, in mean prompts. The first is affinity's;
// there the second is time.
const leavingPays = .1

// modelFloor is affinity's floor, below which load moves nobody.
const modelFloor = 8

// byPrefix is the strategy FixedPrefix, which is SageMaker's, as far as the
// boundaries of a prompt tell its first characters.
func byPrefix(length, concurrency int) rule {
	return func(m *modelRun, c *sampled) int {
		key := uint64(0)
		for _, k := range c.marks {
			if k.bytes <= c.base {
				continue
			}
			if key != 0 && k.bytes-c.base > length {
				break
			}
			key = k.hash
		}
		if home := at(key, m.instances); key != 0 && !m.crowded(home, float64(concurrency)) {
			return home
		}
		return m.idlest()
	}
}

// at chooses an instance by a key.
func at(key uint64, n int) int { return int(groupOf(key) % uint64(n)) }

// placing is where a prefix has been sent: up to four instances, or more than
// are told apart.
type placing struct {
	who [4]uint16
	n   int
}

func (p placing) with(at int) placing {
	if p.n > len(p.who) || slices.Contains(p.who[:p.n], uint16(at)) {
		return p
	}
	if p.n < len(p.who) {
		p.who[p.n] = uint16(at)
	}
	p.n++
	return p
}

// modelCache is the cache of one instance: what was used longest ago goes
// first, the end of a prompt before its beginning, as in vLLM.
type modelCache struct {
	entries map[uint64]*list.Element
	order   list.List // of cached, the latest first
	bytes   int
}

type cached struct {
	hash  uint64
	bytes int
}

// use looks a prompt up, puts it in, and returns how many of its bytes were
// there. A capacity of 0 is none.
func (m *modelCache) use(marks []mark, capacity int) (found int) {
	if m.entries == nil {
		m.entries = map[uint64]*list.Element{}
	}
	for _, k := range marks {
		if m.entries[k.hash] != nil {
			found = k.bytes
		}
	}
	before := 0
	for _, k := range marks {
		if m.entries[k.hash] == nil {
			m.entries[k.hash] = m.order.PushFront(cached{k.hash, k.bytes - before})
			m.bytes += k.bytes - before
		}
		before = k.bytes
	}
	// The beginning becomes the latest, since a prompt is freed from its end.
	for _, k := range slices.Backward(marks) {
		m.order.MoveToFront(m.entries[k.hash])
	}
	for capacity > 0 && m.bytes > capacity && m.order.Len() > 1 {
		last := m.order.Back()
		c := m.order.Remove(last).(cached)
		delete(m.entries, c.hash)
		m.bytes -= c.bytes
	}
	return found
}

// mostInFlight is the number of calls under way that is exceeded at the begin of
// one call in twenty.
func mostInFlight(calls []sampled) float64 {
	var ends []time.Time
	counts := make([]int, len(calls))
	for i := range calls {
		ends = slices.DeleteFunc(ends, func(end time.Time) bool { return !end.After(calls[i].begun) })
		ends = append(ends, calls[i].begun.Add(calls[i].total))
		counts[i] = len(ends)
	}
	if len(counts) == 0 {
		return 0
	}
	slices.Sort(counts)
	return float64(counts[int(math.Ceil(.95*float64(len(counts))))-1])
}
