package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/examples/replay/report"
)

func parseSettings(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("replay", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, usage)
		f.PrintDefaults()
	}
	f.StringVar(&s.trace, "trace", "", "traffic: a `file` (a trace, a recording, a log of requests, trajectories; also with gzip; - is the standard input), or gen:heads, gen:chat or gen:documents, each with parameters after a colon")
	policies := f.String("policies", "random,least-outstanding,fixed-prefix,bounded-load,affinity", "comma `list` of strategies, each with parameters after colons")
	clients := f.String("clients", "1,4,16", "comma `list` of numbers of independent clients")
	f.Float64Var(&s.arrivals, "arrivals", 10, "requests a second, for logs without timestamps")
	f.IntVar(&s.users, "users", 16, "sessions at a time, for trajectories of agents")
	f.IntVar(&s.sessions, "sessions", 0, "of such sessions only so many; 0 means all")
	f.Float64Var(&s.think, "think", 2, "mean `seconds` between an answer and the next request of such a session")
	f.IntVar(&s.output, "output", 0, "answers have at most this many tokens; 0 means as the trace says")
	f.IntVar(&s.instances, "instances", 8, "engines in the fleet")
	names := f.String("names", "", "comma `list` of the engines' identities (see discovery.Endpoint), so that prompts have their homes where they have them in that fleet; none means new ones for each seed")
	f.IntVar(&s.cache, "cache", 400_000, "KV memory of one engine, in `tokens`")
	f.Float64Var(&s.rate, "rate", 1, "requests come this many times as fast; 1 is their own rate (of a Mooncake trace: on 8 engines)")
	f.Float64Var(&s.speed, "speed", 1, "engines compute this many times as fast as the default")
	f.IntVar(&s.seeds, "seeds", 5, "hash placements, of which the mean and the spread are shown")
	f.Uint64Var(&s.seed, "seed", 1, "the first placement's seed")
	f.DurationVar(&s.first, "first", 0, "replay only this much of the trace; 0 means all")
	f.BoolVar(&s.sticky, "sticky", false, "a conversation stays with one client")
	f.Float64Var(&s.scaleAdd, "scale-add", 0, "add a cold engine at this `fraction` of the trace")
	f.Float64Var(&s.scaleDel, "scale-del", 0, "drain an engine at this `fraction` of the trace")
	f.Float64Var(&s.windowAt, "window-at", 0, "measure the ten minutes from this `fraction` of the trace on, without a change of the fleet")
	f.DurationVar(&s.horizon, "horizon", 0, "closed loops send nothing after this time; 0 means no end")
	engine := f.String("engine", "", "the simulated engine: `list` of name=value and of JSON files with such members (see engine.go)")
	endpoints := f.String("endpoints", "", "measure on these instances, in real time: a comma `list` of URLs (simulates the same beside it)")
	f.StringVar(&s.model, "model", "", "with -endpoints: the model's `name`; empty means the first that they serve")
	f.IntVar(&s.concurrency, "concurrency", 0, "requests in flight at most; 0 means no bound in simulation and 256 with -endpoints")
	f.StringVar(&s.apart, "apart", apartSalt, "with -endpoints: how the arms' caches are kept apart: salt (cache_salt) or reset (POST /reset_prefix_cache)")
	f.StringVar(&s.anonymize, "anonymize", "", "write the requests to this `file` as hashes and lengths, without text, and do nothing else")
	f.StringVar(&s.html, "html", "", "write a report with plots to this `file`")
	f.BoolVar(&s.sweep, "sweep", false, "try fixed-prefix with every length from 1,024 to 65,536 characters")
	f.IntVar(&s.ranks, "ranks", 1, "data-parallel ranks of each instance, each with a cache of its own and an endpoint to the client")
	f.BoolVar(&s.json, "json", false, "print one JSON object a line for each arm")
	f.BoolVar(&s.progress, "progress", false, "show what is being done although the output is no terminal")
	f.BoolVar(&s.quiet, "quiet", false, "show no progress")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	s.given = map[string]bool{}
	f.Visit(func(f *flag.Flag) { s.given[f.Name] = true })
	f.VisitAll(func(f *flag.Flag) {
		s.options = append(s.options, report.Option{Name: "-" + f.Name, Value: f.Value.String()})
	})
	s.command = commandLine(args)
	var err error
	if s.engine, err = parseEngine(*engine); err != nil {
		return nil, err
	}
	if *endpoints != "" {
		s.endpoints = strings.Split(*endpoints, ",")
		if err := s.measure(clients); err != nil {
			return nil, err
		}
	}
	if *names != "" {
		if err := s.name(strings.Split(*names, ",")); err != nil {
			return nil, err
		}
	}
	return s, s.complete(f, *policies, *clients)
}

// commandLine writes the arguments as a shell reads them.
func commandLine(args []string) string {
	line := "go run ./examples/replay"
	for _, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`*?&;|<>()#~!{}[]") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		line += " " + a
	}
	return line
}

// defaultConcurrencyBound keeps a measurement from opening connections without
// end when the instances cannot keep up.
const defaultConcurrencyBound = 256

// The lengths of -sweep are those that SageMaker permits.
const sweepFrom, sweepTo = 1 << 10, 64 << 10

// measure sets what is different on real instances: every arm takes as long as
// the trace, so there is one of each unless more are asked for.
func (s *settings) measure(clients *string) error {
	if !s.given["clients"] {
		*clients = "1"
	}
	if !s.given["seeds"] {
		s.seeds = 1
	}
	if s.concurrency == 0 {
		s.concurrency = defaultConcurrencyBound
	}
	for _, name := range []string{"instances", "names", "scale-add", "scale-del"} {
		if s.given[name] {
			return fmt.Errorf("-%s is for simulations; with -endpoints the fleet is as it is", name)
		}
	}
	s.instances = len(s.endpoints)
	_, err := discovery.Static(s.endpoints...)
	return err
}

// name gives each of the instances its identity.
func (s *settings) name(names []string) error {
	if !s.given["instances"] {
		s.instances = len(names)
	}
	if len(names) != s.instances {
		return fmt.Errorf("-names has %d names for %d -instances; give each one its own", len(names), s.instances)
	}
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			return fmt.Errorf("-names: %q, the name of instance %d, is empty or taken; give each one its own", name, i+1)
		}
	}
	s.names = names
	return nil
}

func (s *settings) complete(f *flag.FlagSet, policies, clients string) error {
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; everything is given by flags", f.Arg(0))
	case s.trace == "":
		return errors.New("no traffic; give -trace a file, gen:heads, gen:chat or gen:documents")
	case s.apart != apartSalt && s.apart != apartReset:
		return fmt.Errorf("-apart is %q; use salt or reset", s.apart)
	case s.scaleDel > 0 && s.instances < 2:
		return errors.New("-scale-del needs at least two -instances")
	case s.windowAt > 0 && (s.scaleAdd > 0 || s.scaleDel > 0):
		return errors.New("-window-at is for a fleet that does not change; with -scale-add and -scale-del the ten minutes after the change are measured anyway")
	}
	for _, name := range []string{"model", "apart"} {
		if s.given[name] && len(s.endpoints) == 0 {
			return fmt.Errorf("-%s is for measurements; give -endpoints as well", name)
		}
	}
	if err := s.inRange(); err != nil {
		return err
	}
	for _, text := range strings.Split(policies, ",") {
		p, err := parsePolicy(text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(s.policies, func(other policy) bool { return other.name == p.name }) {
			return fmt.Errorf("-policies: %q is there twice", p.name)
		}
		if !s.sweep || p.options.Strategy != affinity.FixedPrefix {
			s.policies = append(s.policies, p)
		}
	}
	for length := sweepFrom; s.sweep && length <= sweepTo; length *= 2 {
		p, err := parsePolicy(fmt.Sprintf("fixed-prefix:length=%d", length))
		if err != nil {
			return err
		}
		s.policies = append(s.policies, p)
	}
	for _, text := range strings.Split(clients, ",") {
		n, err := strconv.Atoi(text)
		switch {
		case err != nil || n < 1 || n > mostClients:
			return fmt.Errorf("-clients: %q is not a number of clients from 1 to %d; use some such as 1,4,16", text, mostClients)
		case slices.Contains(s.clients, n):
			return fmt.Errorf("-clients: %d is there twice", n)
		}
		s.clients = append(s.clients, n)
	}
	return nil
}
