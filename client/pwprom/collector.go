package pwprom

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prefixwise/prefixwise/client"
)

// Collector is a prometheus.Collector for one client. It is safe for
// concurrent use. For several clients in a process, register each Collector
// with a label of its own, by prometheus.WrapRegistererWith.
type Collector struct {
	calls
	trace  client.Trace
	client atomic.Pointer[client.Client]
}

// New returns a Collector. It has nothing to show before its Trace is given to
// a client, and nothing of endpoints before Watch.
func New() *Collector {
	m := &Collector{calls: newCalls()}
	m.trace = client.Trace{Retrying: m.retrying, Done: m.done}
	return m
}

// Trace returns the hooks to give to the client, by client.WithObserver.
func (m *Collector) Trace() *client.Trace { return &m.trace }

// Watch makes c the client whose fleet is shown: the one that the Trace was
// given to. Another call replaces it.
func (m *Collector) Watch(c *client.Client) { m.client.Store(c) }

// The metrics that are read from the client when they are asked for.
var (
	promptTokens = describe("prompt_tokens_total", "Prompt tokens of the calls for which engines reported cached tokens too.")
	cachedTokens = describe("cached_tokens_total", "Prompt tokens that came from the engines' caches.")
	endpoints    = describe("endpoints", "Endpoints of the fleet.")

	inFlight       = describe("endpoint_in_flight", "Attempts under way at an endpoint.", "endpoint")
	requests       = describe("endpoint_requests_total", "Attempts sent to an endpoint.", "endpoint")
	failures       = describe("endpoint_failures_total", "Attempts that failed by an endpoint's doing.", "endpoint")
	overflows      = describe("endpoint_overflows_total", "Attempts sent to an endpoint although another is preferred.", "endpoint", "reason")
	endpointPrompt = describe("endpoint_prompt_tokens_total", "Prompt tokens of the requests for which an endpoint reported cached tokens too.", "endpoint")
	endpointCached = describe("endpoint_cached_tokens_total", "Prompt tokens that came from an endpoint's cache.", "endpoint")
	ejections      = describe("endpoint_ejections_total", "Times that an endpoint was set aside for failing.", "endpoint")
	setAside       = describe("endpoint_set_aside", "Whether an endpoint is set aside for failing (1) or not (0).", "endpoint")
	healthy        = describe("endpoint_healthy", "Whether an endpoint's health check succeeds (1) or not (0).", "endpoint")

	fromClient = []*prometheus.Desc{promptTokens, cachedTokens, endpoints, inFlight, requests, failures, overflows,
		endpointPrompt, endpointCached, ejections, setAside, healthy}
)

const namespace = "prefixwise"

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// Describe implements prometheus.Collector.
func (m *Collector) Describe(to chan<- *prometheus.Desc) {
	m.calls.describe(to)
	for _, d := range fromClient {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Collector) Collect(to chan<- prometheus.Metric) {
	m.calls.collect(to)
	c := m.client.Load()
	if c == nil {
		return
	}
	s := c.Stats()
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter(promptTokens, s.PromptTokens)
	counter(cachedTokens, s.CachedTokens)
	members := 0
	for _, e := range s.Endpoints {
		gauge(inFlight, float64(e.InFlight), e.ID)
		counter(requests, e.Requests, e.ID)
		counter(failures, e.Failed, e.ID)
		counter(endpointPrompt, e.PromptTokens, e.ID)
		counter(endpointCached, e.CachedTokens, e.ID)
		counter(ejections, e.Ejections, e.ID)
		gauge(setAside, boolean(e.Aside), e.ID)
		if e.Health != "unknown" {
			gauge(healthy, boolean(e.Health == "healthy"), e.ID)
		}
		for reason, n := range e.Overflow {
			counter(overflows, n, e.ID, reason)
		}
		if e.URL != "" { // one that has left has requests to finish, and no address
			members++
		}
	}
	gauge(endpoints, float64(members))
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var _ prometheus.Collector = (*Collector)(nil)
