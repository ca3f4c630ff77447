package client

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/discovery"
)

// Option is a setting of [New], [NewWithConfig] and [FromEnv]. A later option
// overrides an earlier one; those that name endpoints add up.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// WithEndpoints adds instances by their base URLs, with or without /v1, such
// as "http://10.0.0.1:8000"; "a=http://10.0.0.1:8000" gives an instance a name, so
// that it keeps its prompts when its address changes. The list is taken as it is and never resolved
// again; use [WithDNS] where addresses change.
func WithEndpoints(urls ...string) Option {
	return optionFunc(func(c *config) {
		c.resolve(func() (discovery.Resolver, error) { return discovery.Static(urls...) })
	})
}

// WithDNS adds one instance for each address (A and AAAA records) of the
// host in rawURL, such as the name of a headless Kubernetes service:
// "http://vllm.default.svc.cluster.local:8000". The name is resolved again
// every 10 s ([WithResolveInterval]).
func WithDNS(rawURL string) Option {
	return optionFunc(func(c *config) {
		c.resolve(func() (discovery.Resolver, error) { return discovery.DNS(rawURL) })
	})
}

// WithSRV adds one instance for each target of a DNS SRV record, such as
// "_http._tcp.vllm.default.svc.cluster.local". The scheme is "http" or
// "https". Unlike with [WithDNS], an instance that restarts under a new
// address keeps its identity, and so its prompts.
func WithSRV(scheme, name string) Option {
	return optionFunc(func(c *config) {
		c.resolve(func() (discovery.Resolver, error) { return discovery.SRV(scheme, name) })
	})
}

// WithResolver adds the instances that r finds, for service registries other
// than DNS.
func WithResolver(r discovery.Resolver) Option {
	return optionFunc(func(c *config) {
		c.resolve(func() (discovery.Resolver, error) { return r, nil })
	})
}

// WithDataParallel makes each of the n data-parallel ranks behind every URL
// (vLLM's --data-parallel-size) an endpoint of its own, since each has its own
// cache. The default is 1: no ranks.
func WithDataParallel(n int) Option {
	return optionFunc(func(c *config) { c.ranks = n })
}

// WithResolveInterval sets how often names are resolved again. The default is
// 10 s, give or take a fifth.
func WithResolveInterval(d time.Duration) Option {
	return optionFunc(func(c *config) { c.resolveInterval = d })
}

// WithHealthChecks sets how often each endpoint's /health is asked. The
// default is 5 s. Zero or less turns the checks off, for engines that have no
// such path.
func WithHealthChecks(interval time.Duration) Option {
	return optionFunc(func(c *config) { c.healthInterval = offUnlessPositive(interval) })
}

// WithModelChecks sets how often each endpoint's /v1/models is asked, so that
// a request goes only where its model or LoRA adapter is served. The default
// is 30 s. Zero or less turns it off: every endpoint is taken to serve every
// model.
func WithModelChecks(interval time.Duration) Option {
	return optionFunc(func(c *config) { c.modelsInterval = offUnlessPositive(interval) })
}

// WithMetrics sets how often each endpoint's /metrics is asked, so that the
// strategy Affinity knows what other processes have sent there; see package
// affinity. The default is 1 s, while there are calls; an idle client does not
// ask. vLLM makes some 60 KB of text for an answer: with more than about thirty
// busy processes on one fleet, 2 s is kinder. Readings older than 4 s do not
// count, so longer intervals are the same as none. Zero or less turns it off,
// and placement goes by this client's own requests alone.
func WithMetrics(interval time.Duration) Option {
	return optionFunc(func(c *config) { c.metricsInterval = offUnlessPositive(interval) })
}

// WithIndexBytes bounds the memory in which the strategy Affinity keeps what it
// has sent where. The default (0) is 32 MiB, enough for 80,000 conversations.
func WithIndexBytes(n int) Option {
	return optionFunc(func(c *config) { c.indexBytes = n })
}

func offUnlessPositive(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return d
}

// WithAPIKey sets the key of the fleet. It is sent to the fleet's endpoints
// under /v1 only, replacing an Authorization that an SDK has set. By default
// the one that the SDK sets is passed on.
func WithAPIKey(key string) Option {
	return optionFunc(func(c *config) { c.apiKey = key })
}

// WithStrategy sets how endpoints are picked: [Affinity] (the default),
// [BoundedLoad], [FixedPrefix], [LeastOutstanding], [RoundRobin] or [Random];
// see package affinity. [Client.SetStrategy] changes it while the client runs.
func WithStrategy(s Strategy) Option {
	return optionFunc(func(c *config) { c.strategy = s })
}

// WithFixedPrefix sets the length, in characters of the message text (1,024 to
// 65,536; 0 means 4,096), and the concurrency threshold (1 to 1,024; 0 means
// 24) of the strategy [FixedPrefix], which is that of Amazon SageMaker's
// prefix-aware routing. Other strategies do not use them.
func WithFixedPrefix(length, concurrency int) Option {
	return optionFunc(func(c *config) {
		c.fixedPrefix = affinity.FixedPrefixOptions{Length: length, Concurrency: concurrency}
	})
}

// WithLimit sets the most requests that this client has in flight at one
// endpoint, with any strategy. The default is none. When all endpoints are at
// the limit the least loaded one gets the request nevertheless, unless
// [WithRefusal] is given.
func WithLimit(n int) Option {
	return optionFunc(func(c *config) { c.limit = n })
}

// WithRefusal makes a call fail with affinity.ErrOverLimit when every endpoint
// is at the limit of [WithLimit].
func WithRefusal() Option {
	return optionFunc(func(c *config) { c.refuse = true })
}

// WithLimitWait makes a call wait for up to d when every endpoint is at the
// limit of [WithLimit], about in the order of arrival; then it fails with
// affinity.ErrOverLimit. The end of its context ends the wait. The default is
// not to wait.
func WithLimitWait(d time.Duration) Option {
	return optionFunc(func(c *config) { c.limitWait = d })
}

// WithEjection sets when an endpoint that fails is set aside; see
// affinity.Ejection for the defaults, which apply without this option. Nil
// turns it off: only health checks then keep requests away from an endpoint.
func WithEjection(e *affinity.Ejection) Option {
	return optionFunc(func(c *config) { c.ejection = e })
}

// WithTenantSalt keeps tenants from sharing what the engines have cached: each
// chat, completion, Responses and embedding request of a [WithTenant] context
// gets a cache_salt (vLLM) that is made of the secret and the tenant's name.
// Anthropic-style messages have no such field: tenants that must be kept apart
// must not use them on one fleet. Without a salt, who can send prompts can find
// out by timing what others have sent (CVE-2025-46570). The secret must be the
// same in all processes and at least 16 bytes long. Requests without a tenant
// are not salted. The default is no salt.
func WithTenantSalt(secret []byte) Option {
	return optionFunc(func(c *config) { c.salt, c.salted = bytes.Clone(secret), true })
}

// WithCanonicalization sets how far requests are rewritten; see package canon.
// The default is canon.Stable. canon.Wire never changes what the model sees.
func WithCanonicalization(level canon.Level) Option {
	return optionFunc(func(c *config) { c.level = level })
}

// WithMaxRequestBytes sets the largest JSON request that is sent. The default
// is 32 MiB; a larger one fails with a *canon.SizeError.
func WithMaxRequestBytes(n int) Option {
	return optionFunc(func(c *config) { c.maxBytes = n })
}

// WithRetries sets the number of attempts after the first one. The default is
// 3; 0 turns retries off.
func WithRetries(n int) Option {
	return optionFunc(func(c *config) { c.retries = n })
}

// Timeouts are the time limits of a call. A field that is zero keeps its
// default; a negative one turns the limit off.
type Timeouts struct {
	// Connect bounds dialling, and the TLS handshake. The default is 3 s.
	Connect time.Duration
	// FirstByte bounds the time to the first content of a stream, in each
	// attempt. The default is 5 min: a long prompt in a long queue is not a
	// fault. A plain response sends its header after generating, so only Total
	// and the context bound the wait for it.
	FirstByte time.Duration
	// Idle bounds the time between two pieces of a response's body. The default is
	// 2 min.
	Idle time.Duration
	// Stall is how long a stream may wait for its first content before its
	// endpoint is suspected to hang. If nothing else has come from there
	// meanwhile, new calls go elsewhere until something does; the stream goes
	// on waiting. The default is 30 s: the prefill of 128K tokens takes 10 to
	// 20 s on data-centre GPUs.
	Stall time.Duration
	// Total bounds a call with all its attempts and its body. The default is
	// off: the context bounds it. Where neither has a limit, a plain call to an
	// engine that takes it and never answers waits for ever, as with the bare
	// client: nothing tells it from a long generation.
	Total time.Duration
}

// WithTimeouts sets the time limits of a call. Each is an *Error that says
// which limit and where; none is an http.Client.Timeout, which would cut
// streams that are alive.
func WithTimeouts(t Timeouts) Option {
	return optionFunc(func(c *config) { c.timeouts = t })
}

// WithTransport sets what the endpoints' transports are made from. An
// *http.Transport is cloned for each endpoint; another http.RoundTripper
// serves all of them, and then WithDNS over https cannot work. The default is
// a transport made for engines; see middleware.TransportOptions.
func WithTransport(base http.RoundTripper) Option {
	return optionFunc(func(c *config) { c.base = base })
}

// WithTLS sets the TLS configuration for https endpoints: a private CA, client
// certificates. It cannot be combined with [WithTransport].
func WithTLS(cfg *tls.Config) Option {
	return optionFunc(func(c *config) { c.tls = cfg })
}

// WithLinkLocal permits endpoints at link-local and metadata addresses, which
// are refused by default when they are dialled.
func WithLinkLocal() Option {
	return optionFunc(func(c *config) { c.linkLocal = true })
}

// WithLogger sets where the client logs: changes of the fleet and failures at
// level Warn or Info, calls at level Debug; never prompts or keys. The default
// discards everything.
//
// Go's own net/http has a line that no transport can turn off: when a server sends
// more than the length that it announced, up to 4 KiB of the rest go to the
// standard logger ("Unsolicited response received on idle HTTP channel"). No
// correct server does that; where one might, see to what log.SetOutput is given.
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(c *config) { c.logger = l })
}

// WithObserver reports every call to t. It can be given several times.
func WithObserver(t *Trace) Option {
	return optionFunc(func(c *config) { c.observers = append(c.observers, t) })
}

// WithSessions sets how many sessions the client keeps and for how long, and
// what is told of rewritten history; see [Client.Session].
func WithSessions(o SessionOptions) Option {
	return optionFunc(func(c *config) { c.sessions = o })
}

// Strategy names a way of picking endpoints.
type Strategy = affinity.Strategy

// The strategies; see package affinity.
const (
	Affinity         = affinity.Affinity
	LeastOutstanding = affinity.LeastOutstanding
	RoundRobin       = affinity.RoundRobin
	Random           = affinity.Random
	BoundedLoad      = affinity.BoundedLoad
	FixedPrefix      = affinity.FixedPrefix
)
