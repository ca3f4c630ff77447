package client

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/discovery"
)

// config is what the options say.
type config struct {
	resolvers       []discovery.Resolver
	problems        []error // of options that could not be understood
	ranks           int
	resolveInterval time.Duration
	healthInterval  time.Duration
	modelsInterval  time.Duration
	metricsInterval time.Duration
	indexBytes      int
	apiKey          string
	header          http.Header // what a go-openai client of the caller's config sends
	strategy        Strategy
	fixedPrefix     affinity.FixedPrefixOptions
	experiment      bool // WithExperiment was given
	control         Strategy
	fraction        float64
	limit           int
	refuse          bool
	limitWait       time.Duration
	ejection        *affinity.Ejection
	salt            []byte
	salted          bool // WithTenantSalt was given
	level           canon.Level
	maxBytes        int
	retries         int
	timeouts        Timeouts
	base            http.RoundTripper
	tls             *tls.Config
	linkLocal       bool
	logger          *slog.Logger
	observers       []*Trace
	sessions        SessionOptions
	disabled        bool
}

// defaultTimeouts are documented, with their reasons, at Timeouts.
var defaultTimeouts = Timeouts{
	Connect:   3 * time.Second,
	FirstByte: 5 * time.Minute,
	Idle:      2 * time.Minute,
	Stall:     30 * time.Second,
}

func newConfig(opts []Option) config {
	c := config{
		ranks:    1,
		strategy: affinity.Affinity,
		level:    canon.Stable,
		ejection: &affinity.Ejection{},
		retries:  3, // a fleet that fails four times in a row is down
		logger:   slog.New(slog.DiscardHandler),
		disabled: isOn(os.Getenv(envDisabled)),
	}
	for _, o := range opts {
		if o != nil {
			o.apply(&c)
		}
	}
	if c.disabled {
		c.strategy = affinity.LeastOutstanding
	}
	c.timeouts = Timeouts{
		Connect:   cmp.Or(c.timeouts.Connect, defaultTimeouts.Connect), // negative means none there too
		FirstByte: orDefault(c.timeouts.FirstByte, defaultTimeouts.FirstByte),
		Idle:      orDefault(c.timeouts.Idle, defaultTimeouts.Idle),
		Total:     orDefault(c.timeouts.Total, defaultTimeouts.Total),
		Stall:     orDefault(c.timeouts.Stall, defaultTimeouts.Stall),
	}
	return c
}

// isOn reads a switch. Whoever sets one means it: only what says no is no.
func isOn(value string) bool {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "", "0", "false", "f", "off", "no", "n":
		return false
	}
	return true
}

// minSecret is the least a secret must have: half of what SHA-256 puts out, as
// RFC 2104 asks of HMAC keys that they be not much shorter than the hash.
const minSecret = 16

// orDefault returns 0, which means no limit, for a negative d.
func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return max(d, 0)
}

func (c *config) resolve(make func() (discovery.Resolver, error)) {
	r, err := make()
	switch {
	case err != nil:
		c.problems = append(c.problems, err)
	case r == nil:
		c.problems = append(c.problems, errors.New("WithResolver was given nil; give it a discovery.Resolver"))
	default:
		c.resolvers = append(c.resolvers, r)
	}
}

// maxRanks is more than any deployment has: the largest are of some hundred.
const maxRanks = 4096

// validate says everything that is wrong at once, and what to write instead.
func (c *config) validate() error {
	wrong := c.problems
	say := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	say(len(c.resolvers) == 0 && len(c.problems) == 0,
		`no endpoints; write client.WithEndpoints("http://host:8000"), or use WithDNS or WithSRV`)
	_, err := affinity.ParseStrategy(string(c.strategy))
	say(err != nil, "%w", err)
	if c.experiment {
		_, err := affinity.ParseStrategy(string(c.control))
		say(err != nil, "WithExperiment: %w", err)
		say(c.control == c.strategy && !c.disabled, "WithExperiment compares %s with itself; give it another strategy as the control", c.control)
		say(!(c.fraction > 0 && c.fraction < 1), "WithExperiment(…, %v): the control's part is above 0 and below 1; write 0.1 for a tenth", c.fraction)
	}
	say(c.limit < 0, "WithLimit(%d) is negative; write 0 for no limit", c.limit)
	say(c.limitWait < 0, "WithLimitWait(%v) is negative; write 0 for no wait", c.limitWait)
	say(c.limitWait > 0 && c.limit == 0, "WithLimitWait has no limit to wait at; add WithLimit(n)")
	say(c.salted && len(c.salt) < minSecret, "WithTenantSalt was given a secret of %d bytes; give it %d random ones", len(c.salt), minSecret)
	say(c.refuse && c.limit == 0, "WithRefusal has no limit to refuse over; add WithLimit(n)")
	say(c.retries < 0, "WithRetries(%d) is negative; write 0 for no retries", c.retries)
	say(c.ranks < 1, "WithDataParallel(%d): there is at least one rank; write 1 for an engine without ranks", c.ranks)
	say(c.ranks > maxRanks, "WithDataParallel(%d): no engine has more than %d ranks", c.ranks, maxRanks)
	say(c.maxBytes < 0, "WithMaxRequestBytes(%d) is negative; write 0 for the default of 32 MiB", c.maxBytes)
	say(strings.ContainsFunc(c.apiKey, unicode.IsControl), "WithAPIKey was given a key with a control character, such as a line break; trim it")
	say(c.resolveInterval < 0, "WithResolveInterval(%v) is negative; write 0 for the default of 10 s", c.resolveInterval)
	say(c.indexBytes < 0, "WithIndexBytes(%d) is negative; write 0 for the default of 32 MiB", c.indexBytes)
	say(c.logger == nil, "WithLogger was given nil; leave it out to log nothing")
	say(c.base != nil && c.tls != nil, "WithTLS and WithTransport exclude each other; set TLSClientConfig of the transport")
	say(c.sessions.Max < 0, "WithSessions: Max %d is negative; write 0 for the default of 1,024", c.sessions.Max)
	for _, t := range c.observers {
		say(t == nil, "WithObserver was given nil; give it a *client.Trace")
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("prefixwise: wrong configuration: %w", errors.Join(wrong...))
}
