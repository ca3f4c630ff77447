package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// settings are the command line.
type settings struct {
	trace     string
	policies  []policy
	instances int
	clients   []int
	cache     int
	rate      float64
	speed     float64
	seeds     int
	seed      uint64
	first     time.Duration
	sticky    bool
	scaleAdd  float64
	scaleDel  float64
	windowAt  float64
	horizon   time.Duration
	json      bool
	quiet     bool
}

// referenceInstances is the size of fleet for which rate 1 is a trace's own
// rate; a larger fleet gets proportionally more.
const referenceInstances = 8

func parseSettings(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("replay", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, usage)
		f.PrintDefaults()
	}
	f.StringVar(&s.trace, "trace", "", "trace `file` in Mooncake's format, or gen:heads or gen:chat, each with parameters after a colon")
	policies := f.String("policies", "random,least-outstanding,fixed-prefix,bounded-load,affinity", "comma `list` of strategies, each with parameters after colons")
	clients := f.String("clients", "1,4,16", "comma `list` of numbers of independent clients")
	f.IntVar(&s.instances, "instances", 8, "engines in the fleet")
	f.IntVar(&s.cache, "cache", 400_000, "KV memory of one engine, in `tokens`")
	f.Float64Var(&s.rate, "rate", 1, "requests come this many times as fast; 1 is the trace's own rate on 8 engines")
	f.Float64Var(&s.speed, "speed", 1, "engines compute this many times as fast as the default")
	f.IntVar(&s.seeds, "seeds", 5, "hash placements, of which the mean and the spread are shown")
	f.Uint64Var(&s.seed, "seed", 1, "the first placement's seed")
	f.DurationVar(&s.first, "first", 0, "replay only this much of the trace; 0 means all")
	f.BoolVar(&s.sticky, "sticky", false, "a conversation stays with one client")
	f.Float64Var(&s.scaleAdd, "scale-add", 0, "add a cold engine at this `fraction` of the trace")
	f.Float64Var(&s.scaleDel, "scale-del", 0, "drain an engine at this `fraction` of the trace")
	f.Float64Var(&s.windowAt, "window-at", 0, "measure the ten minutes from this `fraction` of the trace on, without a change of the fleet")
	f.DurationVar(&s.horizon, "horizon", 0, "closed loops send nothing after this time; 0 means no end")
	f.BoolVar(&s.json, "json", false, "print one JSON object a line for each arm")
	f.BoolVar(&s.quiet, "quiet", false, "show no progress")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return s, s.complete(f, *policies, *clients)
}

func (s *settings) complete(f *flag.FlagSet, policies, clients string) error {
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; everything is given by flags", f.Arg(0))
	case s.trace == "":
		return errors.New("no traffic; give -trace a file, gen:heads or gen:chat")
	case s.instances < 1 || s.instances > 1024:
		return fmt.Errorf("-instances is %d; use 1 to 1024", s.instances)
	case s.cache < 1024:
		return fmt.Errorf("-cache is %d tokens; use at least 1024", s.cache)
	case !(s.rate > 0) || !(s.speed > 0):
		return errors.New("-rate and -speed must be above 0")
	case s.seeds < 1:
		return errors.New("-seeds must be at least 1")
	case s.scaleDel > 0 && s.instances < 2:
		return errors.New("-scale-del needs at least two -instances")
	}
	for _, text := range strings.Split(policies, ",") {
		p, err := parsePolicy(text)
		if err != nil {
			return err
		}
		s.policies = append(s.policies, p)
	}
	for _, text := range strings.Split(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-clients: %q is not a number of clients; use one such as 1,4,16", text)
		}
		s.clients = append(s.clients, n)
	}
	return nil
}

// window tells when the ten minutes begin that are measured apart, if any are.
func (s *settings) window(t *trace) (time.Duration, bool) {
	f := max(s.scaleAdd, s.scaleDel, s.windowAt)
	return time.Duration(f * float64(t.duration())), f > 0
}

// load reads or makes the traffic.
func (s *settings) load() (*trace, error) {
	if spec, ok := strings.CutPrefix(s.trace, "gen:"); ok {
		t, err := generate(spec, s.seed)
		if err == nil {
			t.scale(s.rate)
		}
		return t, err
	}
	t, err := loadTrace(s.trace)
	if err != nil {
		return nil, err
	}
	t.fit(s.cache)
	if s.first > 0 {
		t.cut(s.first)
	}
	t.scale(s.rate * float64(s.instances) / referenceInstances)
	return t, nil
}
