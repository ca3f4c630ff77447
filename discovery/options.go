package discovery

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Options say how [Watch] works. The zero value of every field but Resolvers is a
// default that needs no thought.
type Options struct {
	// Resolvers find the endpoints. Where two find the same identity the first
	// wins, and the log says so once.
	Resolvers []Resolver

	// Interval is the time between two resolutions, with ±20 % jitter; 0 means
	// 10 s. Negative: resolve until it worked once, then only on Refresh. Fixed
	// sets (Static, List) are never resolved again.
	Interval time.Duration
	// ResolveTimeout bounds one resolution, all its lookups together; 0 means 30 s.
	ResolveTimeout time.Duration
	// DropAfter is how many answers in a row must lack an endpoint before it
	// leaves; 0 means 2. The one after the first is asked for within about 1 s.
	DropAfter int

	// HealthInterval is the time between two health probes of an endpoint, with
	// ±20 % jitter; 0 means 5 s, negative disables them.
	HealthInterval time.Duration
	// HealthPath is asked under the endpoint's URL, without credentials; "" means
	// "/health". A status of 200 is health.
	HealthPath string
	// HealthTimeout bounds one health probe; 0 means 5 s. A busy engine answers
	// late: keep it well above 2 s.
	HealthTimeout time.Duration
	// FailAfter failures in a row make an endpoint unhealthy; 0 means 3.
	FailAfter int
	// PassAfter successes in a row make an unhealthy one healthy; 0 means 2. An
	// endpoint without a verdict is healthy at the first.
	PassAfter int

	// ModelsInterval is the time between two readings of /v1/models, with ±20 %
	// jitter; 0 means 30 s, negative disables them: every model is then eligible
	// everywhere.
	ModelsInterval time.Duration
	// ModelsTimeout bounds one reading of /v1/models; 0 means 10 s.
	ModelsTimeout time.Duration

	// OnMetrics is called with what an endpoint's engine tells of itself, each time
	// its /metrics was read; calls for different endpoints come at the same time. nil
	// means that metrics are not read. It must not call Close.
	OnMetrics func(id string, m Metrics)
	// MetricsInterval is the time between two readings of an endpoint's /metrics,
	// with ±20 % jitter; 0 means 1 s. Negative: metrics are not read. After three
	// failures in a row the interval grows, to 30 s at most.
	MetricsInterval time.Duration
	// MetricsWanted is asked before each reading, which is left out when it returns
	// false: an idle client need not ask. nil means always.
	MetricsWanted func() bool

	// Transport returns what carries the probes of an endpoint; it is called once
	// for each place that is probed, and must not call the watcher. nil means a plain transport that dials
	// Endpoint.Addr where it is set, verifies the name in the URL, uses no proxy,
	// keeps no connection, and refuses what CheckAddr refuses.
	Transport func(Endpoint) http.RoundTripper
	// Header is sent with /v1/models, for Authorization; never with probes of health or metrics.
	Header http.Header

	// AllowLinkLocal admits link-local and metadata addresses, which are refused
	// otherwise: see CheckAddr.
	AllowLinkLocal bool

	// Logger gets changes of membership and health, and failures when they begin.
	// nil discards them. No header is ever logged.
	Logger *slog.Logger

	// OnChange is called with the whole set, sorted by ID, whenever membership, an
	// address, a health verdict, Member.Refuses or a list of models changed; never
	// with an empty set; one call at a time. Changes that come while a call runs are
	// put together into the next. Fixed sets are delivered before Watch returns, all
	// later calls come from one goroutine of the watcher. It must not call Close.
	OnChange func([]Member)
}

// The defaults, each with its origin.
const (
	// CoreDNS caches 5 s by default in Kubernetes and 30 s elsewhere; answers asked
	// for much more often than that are the same answer.
	defaultInterval = 10 * time.Second
	// grpc-go's resolving timeout: long enough for a slow server, short enough that
	// one stuck lookup is not the end of discovery (grpc-go#6840).
	defaultResolveTimeout = 30 * time.Second
	// One partial answer (golang/go#64896, #69644) must not move a fleet's keys.
	defaultDropAfter = 2

	defaultHealthInterval = 5 * time.Second // half of Kubernetes' periodSeconds 10
	defaultHealthPath     = "/health"       // vLLM, SGLang, TGI
	// A busy engine missed 2 s probes and was restarted eight times a day
	// (gonka-ai/gonka#1421).
	defaultHealthTimeout = 5 * time.Second
	defaultFailAfter     = 3 // HAProxy's fall 3, Kubernetes' failureThreshold 3
	defaultPassAfter     = 2 // HAProxy's rise 2

	// Adapters are loaded by hand or by an operator, in the order of minutes.
	defaultModelsInterval = 30 * time.Second
	defaultModelsTimeout  = 10 * time.Second

	// soon is the delay before a question is put again that the last answer left
	// open: a streak that has begun, an endpoint that is missing once, the first
	// retry of a failed lookup. It is also the least time between two resolutions.
	soon = time.Second
	// backoffFactor between failed resolutions, up to the interval: grpc-go's 1.6.
	backoffFactor = 1.6
	// jitterShare spreads every delay by ±20 % (grpc-go's back-off jitter), so that
	// many clients started together do not stay together.
	jitterShare = 0.2
)

// settings is Options with its defaults filled in.
type settings struct{ Options }

func (o Options) settings() (settings, error) {
	s := settings{o}
	s.Resolvers = Join(o.Resolvers...).(joined)
	if len(s.Resolvers) == 0 {
		return s, errors.New("discovery: no resolver: set Options.Resolvers, with discovery.Static for a fixed list")
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		other time.Duration
		off   bool // negative has a meaning
	}{
		{"Interval", &s.Interval, defaultInterval, true},
		{"ResolveTimeout", &s.ResolveTimeout, defaultResolveTimeout, false},
		{"HealthInterval", &s.HealthInterval, defaultHealthInterval, true},
		{"HealthTimeout", &s.HealthTimeout, defaultHealthTimeout, false},
		{"ModelsInterval", &s.ModelsInterval, defaultModelsInterval, true},
		{"ModelsTimeout", &s.ModelsTimeout, defaultModelsTimeout, false},
	} {
		if *d.value < 0 && !d.off {
			return s, fmt.Errorf("discovery: %s is %v: write a positive duration, or 0 for %v", d.name, *d.value, d.other)
		}
		if *d.value == 0 {
			*d.value = d.other
		}
	}
	if s.MetricsInterval == 0 {
		s.MetricsInterval = defaultMetricsInterval
	}
	for _, n := range []struct {
		name  string
		value *int
		other int
	}{
		{"DropAfter", &s.DropAfter, defaultDropAfter},
		{"FailAfter", &s.FailAfter, defaultFailAfter},
		{"PassAfter", &s.PassAfter, defaultPassAfter},
	} {
		if *n.value < 0 {
			return s, fmt.Errorf("discovery: %s is %d: write 1 or more, or 0 for %d", n.name, *n.value, n.other)
		}
		if *n.value == 0 {
			*n.value = n.other
		}
	}
	switch {
	case s.HealthPath == "":
		s.HealthPath = defaultHealthPath
	case !strings.HasPrefix(s.HealthPath, "/"):
		return s, fmt.Errorf("discovery: HealthPath is %q: write %q", s.HealthPath, "/"+s.HealthPath)
	case strings.ContainsAny(s.HealthPath, "?#"):
		return s, fmt.Errorf("discovery: HealthPath is %q: write a path without a query or fragment", s.HealthPath)
	}
	s.Header = s.Header.Clone()
	if s.Transport == nil {
		s.Transport = plainTransport(s.AllowLinkLocal)
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	return s, nil
}
