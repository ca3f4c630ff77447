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
	// Affinity weighs what an endpoint is expected to have of the prompt
	// against the wait there: the conversation's home, the second of its order,
	// and endpoints that this router has sent more of it to. The default; see
	// the package's description. Of a request without Boundaries, while no
	// gauges are known either, it knows too little for that, and the rule is
	// BoundedLoad's.
	Affinity Strategy = "affinity"
	// BoundedLoad is consistent hashing with bounded loads (CHWBL): a
	// conversation's home until that has LoadFactor times its share of the
	// load in flight, then the next of the conversation's own order. KubeAI
	// made it known for this use; unlike there, the order is the key's own and
	// not a ring's, a floor keeps small numbers from overflowing, and what
	// fits nowhere goes to the least loaded endpoint.
	BoundedLoad Strategy = "bounded-load"
	// FixedPrefix is Amazon SageMaker's rule; see [FixedPrefixOptions].
	FixedPrefix Strategy = "fixed-prefix"
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

var strategies = []Strategy{Affinity, BoundedLoad, FixedPrefix, LeastOutstanding, RoundRobin, Random}

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
