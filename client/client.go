package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/middleware"
)

const (
	envEndpoints = "PREFIXWISE_ENDPOINTS"
	envDisabled  = "PREFIXWISE_DISABLED"
	envAPIKey    = "OPENAI_API_KEY"

	// fleetHost stands for the whole fleet in URLs. Under .invalid (RFC 2606)
	// no name resolves, so a program that forgets the transport fails instead
	// of sending its prompts somewhere.
	fleetHost = "prefixwise.invalid"
	fleetURL  = "http://" + fleetHost + "/v1"
)

// Client is an OpenAI client for a fleet. Every method of the embedded
// *openai.Client goes to the fleet, and the inner pointer can be given to code
// that wants exactly that type. A Client is safe for concurrent use. Close it
// to stop its goroutines.
type Client struct {
	*openai.Client

	fleet     *fleet
	http      *http.Client
	collector *collector
	canon     *canon.Canonicalizer
	sessions  *sessions
	logger    *slog.Logger
	disabled  bool
	close     sync.Once
}

// New returns a client for the fleet that the options name. It returns at
// once: names may be unresolved yet, and calls then wait for the first
// endpoint within their context. A wrong configuration is an error that lists
// everything that is wrong and what to write instead.
//
// With the environment variable PREFIXWISE_DISABLED=1 requests are sent as
// they came, to the endpoint with the fewest in flight: the switch to rule
// Prefixwise out as a cause. Any value turns it on but 0, false, no, off, and
// the empty one.
func New(opts ...Option) (*Client, error) {
	c := newConfig(opts)
	return build(c, openai.DefaultConfig(c.apiKey), nil)
}

// NewWithConfig returns a client that keeps what is set in cfg: its token,
// organization and limits. cfg.BaseURL names the fleet when no option does
// (a URL, or a list as in [FromEnv]). The transport of cfg.HTTPClient becomes
// the base of the chain, and its Timeout the total timeout. The API types of
// Azure and Anthropic are refused.
func NewWithConfig(cfg openai.ClientConfig, opts ...Option) (*Client, error) {
	c := newConfig(opts)
	if cfg.APIType != "" && cfg.APIType != openai.APITypeOpenAI {
		return nil, fmt.Errorf("prefixwise: wrong configuration: API type %s is not served by self-hosted engines; use openai.DefaultConfig", cfg.APIType)
	}
	if len(c.resolvers) == 0 && len(c.problems) == 0 {
		switch cfg.BaseURL {
		case "":
		case openai.DefaultConfig("").BaseURL:
			c.problems = append(c.problems, errors.New("BaseURL is OpenAI's own; set it to your fleet, or use WithEndpoints"))
		default:
			c.resolve(func() (discovery.Resolver, error) { return discovery.Parse(cfg.BaseURL) })
		}
	}
	inner := &http.Client{}
	switch h := cfg.HTTPClient.(type) {
	case nil:
	case *http.Client:
		if h == nil {
			break
		}
		*inner = *h
		if c.base == nil {
			c.base = h.Transport
		}
		if c.timeouts.Total == 0 {
			c.timeouts.Total = h.Timeout
		}
	default:
		if c.base == nil {
			c.base = doer{h}
		}
	}
	c.header = headerOf(cfg)
	return build(c, cfg, inner)
}

// FromEnv returns a client for the fleet that PREFIXWISE_ENDPOINTS names: a
// comma-separated list of URLs, where dns+http://host:port stands for every
// address of a name and srv+http://_http._tcp.name for every target of an SRV
// record. The API key is that of OPENAI_API_KEY, if set.
func FromEnv(opts ...Option) (*Client, error) {
	spec := os.Getenv(envEndpoints)
	if strings.TrimSpace(spec) == "" {
		return nil, fmt.Errorf(`prefixwise: %s is not set; set it to the fleet's URLs, such as "http://10.0.0.1:8000,http://10.0.0.2:8000" or "dns+http://vllm:8000"`, envEndpoints)
	}
	all := []Option{optionFunc(func(c *config) {
		c.resolve(func() (discovery.Resolver, error) { return discovery.Parse(spec) })
		c.apiKey = strings.TrimSpace(os.Getenv(envAPIKey)) // a secret's file often ends with a line break
	})}
	return New(append(all, opts...)...)
}

// build puts the layers together: observe, canonicalize, retry, route, send.
func build(c config, cfg openai.ClientConfig, inner *http.Client) (*Client, error) {
	if base, ok := c.base.(*http.Transport); ok && base == nil {
		c.base = nil
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.disabled {
		c.logger.Warn("Prefixwise is switched off: requests go as they came to the endpoint with the fewest in flight", "variable", envDisabled)
	}
	options := canon.Options{Level: c.level, MaxBytes: c.maxBytes, IncludeUsage: true, ReasoningName: "reasoning"}
	canonicalizer, err := canon.New(options)
	if err != nil {
		return nil, fmt.Errorf("prefixwise: wrong configuration: %w", err)
	}
	header := c.header
	if c.apiKey != "" {
		header = header.Clone()
		if header == nil {
			header = http.Header{}
		}
		header.Set("Authorization", "Bearer "+c.apiKey)
	}
	f, err := newFleet(c, header)
	if err != nil {
		return nil, err
	}
	stats := &collector{since: time.Now()}
	var strategy func(*affinity.Request) affinity.Strategy
	if c.experiment && !c.disabled {
		stats.experiment = newExperiment(f.router, c.control, c.fraction)
		strategy = stats.experiment.strategy
	}
	retry := middleware.RetryOptions{Max: c.retries, Total: c.timeouts.Total, NotFound: f.mixed.Load}
	if c.retries == 0 {
		retry.Max = -1 // for the middleware, 0 means the default
	}
	layers := []middleware.Middleware{middleware.Observe(stats.trace()), middleware.Log(c.logger)}
	for _, t := range c.observers {
		layers = append(layers, middleware.Observe(t))
	}
	var routed http.Header
	if c.apiKey != "" {
		routed = http.Header{"Authorization": header["Authorization"]}
	}
	layers = append(layers,
		middleware.Canonicalize(canonicalizer, middleware.CanonicalizeOptions{KeepBody: c.disabled, TenantSalt: c.salt}),
		middleware.Retry(retry),
		middleware.Route(middleware.Routing{
			Router:        f.router,
			Lookup:        f.lookup,
			Placed:        f.placement,
			Strategy:      strategy,
			Wait:          f.wait,
			ModelMissing:  f.modelMissing,
			LimitWait:     c.limitWait,
			ConnectFailed: func(string) { f.watcher.Refresh() },
			Flights:       &f.flights,
			Header:        routed,
			FirstByte:     c.timeouts.FirstByte,
			Stall:         c.timeouts.Stall,
			Idle:          c.timeouts.Idle,
			StreamError:   streamError,
		}))
	if inner == nil {
		inner = &http.Client{}
	}
	inner.Timeout = 0 // it would cut streams that are alive
	inner.Transport = &scope{fleet: middleware.Chain(layers...)(f.transport), transport: f.transport, other: c.base, keyed: c.apiKey != ""}
	cfg.BaseURL, cfg.HTTPClient = fleetURL, inner
	return &Client{
		Client: openai.NewClientWithConfig(cfg), fleet: f, http: inner, collector: stats,
		canon: canonicalizer, sessions: newSessions(c.sessions), logger: c.logger, disabled: c.disabled,
	}, nil
}

// HTTPClient returns the client for SDKs that take an *http.Client. Requests
// to [Client.BaseURL] go to the fleet, others pass through untouched.
func (c *Client) HTTPClient() *http.Client { return c.http }

// Transport returns the same as an http.RoundTripper.
func (c *Client) Transport() http.RoundTripper { return c.http.Transport }

// BaseURL returns the URL that stands for the fleet, to be set as an SDK's
// base URL, whether that SDK adds /v1 to it or not. It works through
// [Client.HTTPClient] and [Client.Transport] only.
func (c *Client) BaseURL() string { return fleetURL }

// Ready waits until there is an endpoint to send to, or ctx ends; the error
// then says what discovery has met.
func (c *Client) Ready(ctx context.Context) error { return c.fleet.watcher.Ready(ctx) }

// SetStrategy changes how endpoints are picked, for calls that begin later. An
// experiment begins anew. With PREFIXWISE_DISABLED=1 it changes nothing.
func (c *Client) SetStrategy(s Strategy) error {
	if c.disabled {
		_, err := affinity.ParseStrategy(string(s))
		return err
	}
	was := c.fleet.router.Strategy()
	if err := c.fleet.router.SetStrategy(s); err != nil {
		return err
	}
	logStrategy(c.fleet.logger, was, s)
	if c.collector.experiment != nil {
		c.collector.experiment.reset()
	}
	return nil
}

// Close stops the client's goroutines and closes its unused connections. Calls
// that are under way end as they would have. It is safe to call it again.
func (c *Client) Close() error {
	var err error
	c.close.Do(func() {
		close(c.fleet.closed)
		err = c.fleet.watcher.Close()
		c.fleet.flights.Close()
		c.fleet.transport.CloseIdleConnections()
	})
	return err
}

// doer makes a RoundTripper of a caller's own HTTP client.
type doer struct{ openai.HTTPDoer }

func (d doer) RoundTrip(req *http.Request) (*http.Response, error) { return d.Do(req) }

// headerOf returns what a go-openai client of cfg sends to say who it is. The
// token in cfg is unexported, so a request is made and caught.
func headerOf(cfg openai.ClientConfig) http.Header {
	h := http.Header{}
	cfg.BaseURL = fleetURL
	cfg.HTTPClient = catcher(func(req *http.Request) {
		for _, name := range []string{"Authorization", "Openai-Organization"} {
			if v := req.Header.Values(name); len(v) > 0 {
				h[name] = v
			}
		}
	})
	_, _ = openai.NewClientWithConfig(cfg).ListModels(context.Background()) // fails by design
	return h
}

type catcher func(*http.Request)

func (c catcher) Do(req *http.Request) (*http.Response, error) {
	c(req)
	return nil, errors.New("caught")
}

// streamError makes an error that an engine reports inside a stream what it is
// with the bare client as well: an *openai.APIError.
func streamError(event []byte) error {
	var e openai.ErrorResponse
	if json.Unmarshal(event, &e) == nil && e.Error != nil {
		return fmt.Errorf("error, %w", e.Error)
	}
	return fmt.Errorf("the engine reported an error in the stream: %.1024s", event)
}
