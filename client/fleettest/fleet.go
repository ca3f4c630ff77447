package fleettest

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

// Fleet is a number of simulated instances on loopback addresses. Instances are
// named by index from 0; methods panic when there is no such instance. All
// methods are safe for concurrent use.
type Fleet struct {
	mu        sync.Mutex
	instances []*instance
}

// keepAlive is how long an instance keeps an idle connection open: the default
// of uvicorn, the HTTP server under vLLM.
const keepAlive = 5 * time.Second

// instance is one address and, while it lives, the server behind it.
type instance struct {
	cfg    Config
	name   string
	addr   string
	claim  *claim          // nil: closed, or none could be had
	sim    *vllmsim.Server // nil: killed
	http   *http.Server
	gate   *gate
	served chan struct{} // closed when http has stopped
	last   Stats         // of the server that was killed last
}

// New starts n instances that are alike. It panics when the configuration is
// impossible or no port can be had: it is meant for tests, like
// httptest.NewServer. The fleet must be closed.
func New(n int, cfg Config) *Fleet {
	return NewMixed(slices.Repeat([]Config{cfg}, n)...)
}

// NewMixed starts one instance for each configuration: a fleet in which
// instances serve different models or adapters, or differ in size or speed.
// It panics as New does.
func NewMixed(configs ...Config) *Fleet {
	f := &Fleet{}
	for i, cfg := range configs {
		in := &instance{cfg: cfg, name: fmt.Sprintf("sim-%d", i)}
		if err := in.start(); err != nil {
			f.Close()
			panic(err)
		}
		f.instances = append(f.instances, in)
	}
	return f
}

func (in *instance) start() error {
	sim, err := vllmsim.NewServer(in.cfg.engine(in.name))
	if err != nil {
		return fmt.Errorf("fleettest: %w", err)
	}
	var l net.Listener
	if in.addr == "" {
		l, in.claim, err = listen()
	} else { // it keeps the address it had first, which others may be reading
		l, err = net.Listen("tcp", in.addr)
	}
	if err != nil {
		sim.Close()
		return fmt.Errorf("fleettest: %w", err)
	}
	if in.addr == "" {
		in.addr = l.Addr().String()
	}
	in.sim, in.gate, in.served = sim, newGate(sim), make(chan struct{})
	in.http = &http.Server{
		Handler:     in.gate,
		IdleTimeout: keepAlive,
		// The messages would be about connections that tests cut on purpose.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go func(s *http.Server, done chan struct{}) {
		defer close(done)
		s.Serve(l) // ends with the Close in stop
	}(in.http, in.served)
	return nil
}

func (in *instance) stop() {
	if in.sim == nil {
		return
	}
	in.last = in.stats()
	in.http.Close()
	<-in.served
	in.sim.Close() // after the connections, so that nobody hears of it
	in.gate.close()
	in.sim, in.http, in.gate = nil, nil, nil
	in.last.Running, in.last.Waiting, in.last.Alive = 0, 0, false
}

// Len returns the number of instances, killed ones included.
func (f *Fleet) Len() int { return len(f.instances) }

// URL returns the base URL of instance i, with /v1: what an OpenAI client takes.
func (f *Fleet) URL(i int) string { return "http://" + f.instances[i].addr + "/v1" }

// URLs returns the base URLs of all instances, in order.
func (f *Fleet) URLs() []string {
	urls := make([]string, len(f.instances))
	for i := range urls {
		urls[i] = f.URL(i)
	}
	return urls
}

// Name returns the name of instance i. Answers carry it as system_fingerprint,
// so that a test can tell which instance has spoken.
func (f *Fleet) Name(i int) string { return f.instances[i].name }

// Kill stops instance i at once, as a crash does: connections are cut, new ones
// are refused, the cache is lost. Killing a dead instance does nothing.
func (f *Fleet) Kill(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instances[i].stop()
}

// Restart starts instance i again at the same address, with an empty cache,
// counters at zero and no fault; one that is alive is killed first. The error
// is that of the listener, should another process have taken the port.
func (f *Fleet) Restart(i int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instances[i].stop()
	return f.instances[i].start()
}

// Drain makes instance i behave as vLLM does while it shuts down gracefully: it
// finishes what it has accepted, its listener stays open, /health still says
// 200, a new chat gets a 500, and a new completion an answer without tokens and
// finish_reason "abort". Restart ends it.
func (f *Fleet) Drain(i int) { f.with(i, (*vllmsim.Server).Drain) }

// Abort ends everything that instance i has in flight with finish_reason
// "abort", as vLLM does when it is stopped without a grace period.
func (f *Fleet) Abort(i int) { f.with(i, (*vllmsim.Server).Abort) }

// SetFault makes instance i misbehave from now on, in place of the fault before;
// Fault{} heals it. A dead instance ignores it.
func (f *Fleet) SetFault(i int, fault Fault) {
	f.with(i, func(s *vllmsim.Server) { s.SetFault(fault.engine()) })
}

// ResetCaches empties the prefix caches of all instances, but for what running
// sequences hold.
func (f *Fleet) ResetCaches() {
	for i := range f.instances {
		f.with(i, (*vllmsim.Server).ResetCache)
	}
}

func (f *Fleet) with(i int, do func(*vllmsim.Server)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.instances[i].sim; s != nil {
		do(s)
	}
}

// Close stops all instances and waits for their goroutines. It can be called
// more than once.
func (f *Fleet) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range f.instances {
		in.stop()
		if in.claim != nil {
			in.claim.Close()
			in.claim = nil
		}
	}
}
