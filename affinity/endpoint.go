package affinity

import (
	"fmt"
	"math"
	"strings"
)

// Endpoint is what placement must know of one instance. It is a value: change
// a fleet by giving [Router.Set] a new slice.
type Endpoint struct {
	// ID is the stable identity, and the only thing of an endpoint that is
	// hashed: an instance that restarts under the same ID keeps its keys.
	ID string
	// Models are the models and adapters served. Nil means unknown: eligible
	// for any model. Empty but not nil means that it serves none.
	Models []string
	// Weight is the capacity relative to the other endpoints; 0 means 1, the
	// largest is 65,536. An endpoint of weight 2 is home to twice the keys and
	// takes twice the load of one of weight 1.
	Weight uint32
	// Limit is the most requests that may be in flight at once; 0 means the
	// limit of [Options].
	Limit int
	// Unavailable says that health checks fail. Such an endpoint is picked
	// only when every eligible one is unavailable.
	Unavailable bool
	// Draining says that the endpoint finishes what it has and gets nothing
	// new, not even when everything else is unavailable.
	Draining bool
}

// maxWeight keeps sums and products of weights far from overflow.
const maxWeight = 1 << 16

func (e *Endpoint) weight() uint64 {
	if e.Weight == 0 {
		return 1
	}
	return uint64(e.Weight)
}

// validate checks a whole set, since identities must be unique within it.
func validate(endpoints []Endpoint) error {
	seen := make(map[string]int, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		switch first, twice := seen[e.ID]; {
		case strings.TrimSpace(e.ID) == "":
			return fmt.Errorf("affinity: endpoint %d has no ID; give each endpoint a stable name, such as its URL", i)
		case twice:
			return fmt.Errorf("affinity: endpoints %d and %d have the same ID %q; list it once, with Weight for more capacity", first, i, e.ID)
		case e.Limit < 0:
			return fmt.Errorf("affinity: endpoint %q has the limit %d; use 0 for no limit of its own, or at least 1", e.ID, e.Limit)
		case int64(e.Limit) > math.MaxInt32:
			return fmt.Errorf("affinity: endpoint %q has the limit %d; use 0 for no limit of its own, or at most %d", e.ID, e.Limit, math.MaxInt32)
		case e.Weight > maxWeight:
			return fmt.Errorf("affinity: endpoint %q has the weight %d; weights are relative, use small ones such as 1 and 2 (at most %d)", e.ID, e.Weight, maxWeight)
		}
		for _, m := range e.Models {
			if m == "" {
				return fmt.Errorf("affinity: endpoint %q lists a model with an empty name; leave Models nil if its models are unknown", e.ID)
			}
		}
		seen[e.ID] = i
	}
	return nil
}
