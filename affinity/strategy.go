package affinity

import (
	"fmt"
	"slices"
	"strings"
)

// Strategy names a rule by which endpoints are picked. Every strategy keeps to
// eligibility, health, draining, hard limits and tried endpoints alike.
type Strategy string

// The strategies.
const (
	// Affinity sends every conversation to its home and, when that is full,
	// along the conversation's own order. The default.
	Affinity Strategy = "affinity"
	// LeastOutstanding sends a request to the endpoint with the fewest in
	// flight from this client, relative to its weight; ties are broken at
	// random.
	LeastOutstanding Strategy = "least-outstanding"
	// RoundRobin takes the endpoints in turn, per model.
	RoundRobin Strategy = "round-robin"
	// Random takes each endpoint with a probability proportional to its
	// weight.
	Random Strategy = "random"
)

var strategies = []Strategy{Affinity, LeastOutstanding, RoundRobin, Random}

// ParseStrategy returns the strategy of that name. The error lists the valid
// names.
func ParseStrategy(name string) (Strategy, error) {
	if s := Strategy(name); slices.Contains(strategies, s) {
		return s, nil
	}
	names := make([]string, len(strategies))
	for i, s := range strategies {
		names[i] = string(s)
	}
	return "", fmt.Errorf("affinity: unknown strategy %q; use one of %s", name, strings.Join(names, ", "))
}
