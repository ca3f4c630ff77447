package middleware

import (
	"sync"
	"time"
)

// Flights knows the attempts that are under way, so that those at an endpoint
// that is gone can be ended. A vLLM that is told to stop closes its
// port at once and, four times of five, leaves the connections of what it was
// working on open and silent until it is killed (vLLM 0.32, internal/e2e): a
// plain request has no other sign of that. The zero value is ready for use; it
// is safe for concurrent use.
type Flights struct {
	mu   sync.Mutex
	all  map[*flight]struct{}
	lost map[string]*time.Timer
}

// lostGrace is how long an endpoint may refuse connections before what is
// silent there is given up. A server that stops in an orderly way closes its
// port first and then finishes its work; 30 s is what Kubernetes gives it
// (terminationGracePeriodSeconds).
const lostGrace = 30 * time.Second

// Refuses says that the endpoint does not take connections any more. Unless
// [Flights.Accepts] follows within 30 s, its attempts of which nothing has
// arrived fail with [ErrEndpointLost] and are tried elsewhere.
func (f *Flights) Refuses(endpoint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.anyAt(endpoint) || f.lost[endpoint] != nil {
		return // what is sent there from now on is refused anyway
	}
	if f.lost == nil {
		f.lost = map[string]*time.Timer{}
	}
	f.lost[endpoint] = time.AfterFunc(lostGrace, func() { f.giveUp(endpoint) })
}

// Accepts says that the endpoint takes connections.
func (f *Flights) Accepts(endpoint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.lost[endpoint]; t != nil {
		t.Stop()
		delete(f.lost, endpoint)
	}
}

// Len returns how many attempts are under way.
func (f *Flights) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all)
}

// Close stops what [Flights.Refuses] has started.
func (f *Flights) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for endpoint, t := range f.lost {
		t.Stop()
		delete(f.lost, endpoint)
	}
}

func (f *Flights) giveUp(endpoint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.lost, endpoint)
	for x := range f.all {
		if x.endpoint.ID == endpoint && !x.alive.Load() {
			x.cancel(ErrEndpointLost)
		}
	}
}

func (f *Flights) anyAt(endpoint string) bool {
	for x := range f.all {
		if x.endpoint.ID == endpoint {
			return true
		}
	}
	return false
}

func (f *Flights) add(x *flight) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[*flight]struct{}{}
	}
	f.all[x] = struct{}{}
}

func (f *Flights) remove(x *flight) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, x)
}
