package main

import (
	"fmt"
	"math"
	"strconv"
)

// mostClients is more than any fleet has; each is a router with an index.
const mostClients = 1024

// mostCache is the KV memory of the largest fleet, in tokens: the simulator has
// some 40 bytes for each block.
const mostCache = 1_000_000_000

// inRange finds a number that makes no sense, or of which the run would not end.
func (s *settings) inRange() error {
	for _, n := range []struct {
		name        string
		value       float64
		least, most float64
	}{
		{"instances", float64(s.instances), 1, 1024},
		{"ranks", float64(s.ranks), 1, 64},
		{"cache", float64(s.cache), 1024, float64(mostCache / max(1, s.instances*s.ranks))},
		{"rate", s.rate, 1e-6, 1e6},
		{"speed", s.speed, 1e-6, 1e6},
		{"arrivals", s.arrivals, 1e-6, 1e6},
		{"users", float64(s.users), 1, 1e6},
		{"sessions", float64(s.sessions), 0, 1e9},
		{"think", s.think, 0, 1e6},
		{"output", float64(s.output), 0, 1e9},
		{"concurrency", float64(s.concurrency), 0, 1e9},
		{"seeds", float64(s.seeds), 1, 1e6},
		{"scale-add", s.scaleAdd, 0, 1},
		{"scale-del", s.scaleDel, 0, 1},
		{"window-at", s.windowAt, 0, 1},
		{"first", s.first.Seconds(), 0, math.MaxInt64},
		{"horizon", s.horizon.Seconds(), 0, math.MaxInt64},
	} {
		plain := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
		if !(n.value >= n.least) {
			return fmt.Errorf("-%s is %s; use at least %s", n.name, plain(n.value), plain(n.least))
		}
		if n.value > n.most {
			return fmt.Errorf("-%s is %s; use at most %s", n.name, plain(n.value), plain(n.most))
		}
	}
	return nil
}
