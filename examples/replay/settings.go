package main

import (
	"strings"
	"time"

	"github.com/prefixwise/prefixwise/examples/replay/report"
)

// settings are the command line.
type settings struct {
	trace     string
	policies  []policy
	instances int
	names     []string // of the instances; none: new ones for each seed
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
	engine    engineNumbers
	arrivals  float64
	users     int
	sessions  int
	think     float64
	output    int
	anonymize string
	html      string
	ranks     int
	sweep     bool
	json      bool
	quiet     bool
	progress  bool

	endpoints   []string // real ones; none: simulate
	model       string
	concurrency int
	apart       string
	given       map[string]bool // the flags on the command line
	command     string          // the command line
	options     []report.Option // all flags and their values
}

// How caches are kept apart between the arms of a measurement.
const (
	apartSalt  = "salt"
	apartReset = "reset"
)

// referenceInstances is the size of fleet for which rate 1 is a trace's own
// rate; a larger fleet gets proportionally more.
const referenceInstances = 8

// window tells when the ten minutes begin that are measured apart, if any are.
func (s *settings) window(t *trace) (time.Duration, bool) {
	f := max(s.scaleAdd, s.scaleDel, s.windowAt)
	return time.Duration(f * float64(t.duration())), f > 0
}

// load reads or makes the traffic. No prompt is longer than longest tokens.
func (s *settings) load(longest int) (*trace, error) {
	t, rate, err := s.traffic()
	if err != nil {
		return nil, err
	}
	if s.output > 0 {
		for _, r := range t.requests {
			r.output = min(r.output, s.output)
		}
	}
	t.fit(longest)
	if s.first > 0 {
		t.cut(s.first)
	}
	t.scale(rate)
	t.number()
	return t, nil
}

// traffic returns the trace as it is, and the factor for its arrivals.
func (s *settings) traffic() (*trace, float64, error) {
	if spec, ok := strings.CutPrefix(s.trace, "gen:"); ok {
		t, err := generate(spec, s.seed)
		return t, s.rate, err
	}
	t, err := loadTrace(s.trace, readOptions{
		prefixes: s.prefixLengths(), arrivals: s.arrivals, users: s.users, sessions: s.sessions, think: s.think, seed: s.seed,
	})
	if err != nil {
		return nil, 0, err
	}
	rate := s.rate
	if t.reference {
		rate *= float64(s.instances*s.ranks) / referenceInstances
	}
	return t, rate, nil
}

// prefixLengths are the numbers of characters that fixed-prefix will ask for.
func (s *settings) prefixLengths() []int {
	var lengths []int
	for _, p := range s.policies {
		lengths = append(lengths, p.prefixLength())
	}
	return lengths
}
