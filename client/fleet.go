package client

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/middleware"
)

// fleet joins what discovery finds with what affinity picks from and with the
// connections that are kept.
type fleet struct {
	router    *affinity.Router
	watcher   *discovery.Watcher
	transport *middleware.Transport
	flights   middleware.Flights
	logger    *slog.Logger
	// What Check asks with, over connections of its own.
	header           http.Header
	transportOptions middleware.TransportOptions

	endpoints atomic.Pointer[map[string]discovery.Endpoint]
	members   atomic.Pointer[[]discovery.Member] // what the router has, sorted by identity
	placed    atomic.Pointer[map[string]string]  // identities by placement token
	gauges    sync.Map                           // identity → gauges, as last read
	used      atomic.Int64                       // when a call last looked for an endpoint, Unix seconds
	mixed     atomic.Bool                        // the endpoints do not all serve the same models
	closed    chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when the router has a new set
	reread  reread
}

func newFleet(c config, header http.Header) (*fleet, error) {
	overLimit := affinity.OverLimitExceed
	if c.refuse || c.limitWait > 0 {
		overLimit = affinity.OverLimitRefuse
	}
	router, err := affinity.New(affinity.Options{
		Strategy: c.strategy, FixedPrefix: c.fixedPrefix, IndexBytes: c.indexBytes,
		Limit: c.limit, OverLimit: overLimit, Ejection: c.ejection, OnAside: logAside(c.logger),
	})
	if err != nil {
		return nil, fmt.Errorf("prefixwise: wrong configuration: %w", err)
	}
	f := &fleet{
		router:  router,
		logger:  c.logger,
		header:  header,
		closed:  make(chan struct{}),
		changed: make(chan struct{}),
		transportOptions: middleware.TransportOptions{
			Base: c.base, TLS: c.tls, ConnectTimeout: c.timeouts.Connect, AllowLinkLocal: c.linkLocal,
		},
	}
	f.used.Store(time.Now().Unix())
	f.transport = middleware.NewTransport(f.transportOptions)
	f.endpoints.Store(&map[string]discovery.Endpoint{})
	f.members.Store(&[]discovery.Member{})
	f.placed.Store(&map[string]string{})
	resolvers := make([]discovery.Resolver, len(c.resolvers))
	for i, r := range c.resolvers {
		if resolvers[i], err = discovery.Ranks(r, c.ranks); err != nil {
			return nil, fmt.Errorf("prefixwise: wrong configuration: %w", err)
		}
	}
	f.watcher, err = discovery.Watch(discovery.Options{
		Resolvers:       resolvers,
		Interval:        c.resolveInterval,
		HealthInterval:  c.healthInterval,
		ModelsInterval:  c.modelsInterval,
		OnMetrics:       f.observe,
		MetricsInterval: c.metricsInterval,
		MetricsWanted:   f.inUse,
		Transport:       f.transport.For,
		AllowLinkLocal:  c.linkLocal,
		Header:          header,
		Logger:          c.logger,
		OnChange:        f.set,
	})
	if err != nil {
		return nil, fmt.Errorf("prefixwise: wrong configuration: %w", err)
	}
	return f, nil
}

// set takes a whole set of members. The table is changed around the router so
// that what the router picks can be looked up.
func (f *fleet) set(members []discovery.Member) {
	next := make(map[string]discovery.Endpoint, len(members))
	all := make(map[string]discovery.Endpoint, len(members))
	for id, ep := range *f.endpoints.Load() {
		all[id] = ep
	}
	eps := make([]discovery.Endpoint, 0, len(members))
	targets := make([]affinity.Endpoint, 0, len(members))
	for _, m := range members {
		next[m.ID], all[m.ID] = m.Endpoint, m.Endpoint
		eps = append(eps, m.Endpoint)
		targets = append(targets, affinity.Endpoint{
			ID: m.ID, Models: m.Models, Weight: m.Weight, Unavailable: m.Health == discovery.Unhealthy,
		})
	}
	for _, m := range members {
		if m.Health == discovery.Unhealthy && m.Refuses {
			f.flights.Refuses(m.ID)
		} else {
			f.flights.Accepts(m.ID)
		}
	}
	f.mixed.Store(mixed(members))
	f.endpoints.Store(&all)
	if err := f.router.Set(targets); err != nil {
		f.logger.Error("the new set of endpoints is refused; the last one stays", slog.String("error", err.Error()))
		return
	}
	f.endpoints.Store(&next)
	f.members.Store(&members)
	placed := make(map[string]string, len(next))
	for id := range next {
		placed[middleware.PlacementToken(id)] = id
	}
	f.placed.Store(&placed)
	f.gauges.Range(func(id, _ any) bool {
		if _, here := next[id.(string)]; !here {
			f.gauges.Delete(id)
		}
		return true
	})
	f.transport.Keep(eps)
	f.mu.Lock()
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
}

// mixed tells whether two members are known to serve different models.
func mixed(members []discovery.Member) bool {
	var first map[string]bool
	for _, m := range members {
		if m.Models == nil {
			continue
		}
		served := make(map[string]bool, len(m.Models))
		for _, model := range m.Models {
			served[model] = true
		}
		if first == nil {
			first = served
		} else if !maps.Equal(first, served) {
			return true
		}
	}
	return false
}

func (f *fleet) lookup(id string) (discovery.Endpoint, bool) {
	f.used.Store(time.Now().Unix())
	ep, ok := (*f.endpoints.Load())[id]
	return ep, ok
}

func (f *fleet) placement(token string) (id string, ok bool) {
	id, ok = (*f.placed.Load())[token]
	return id, ok
}
