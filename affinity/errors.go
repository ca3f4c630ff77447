package affinity

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoEndpoints: there is nothing to route to, because the set is empty
	// or everything eligible is draining. It may pass when discovery finds
	// more.
	ErrNoEndpoints = errors.New("affinity: no endpoints; give Router.Set at least one, or wait until discovery has found one")
	// ErrOverLimit: every eligible endpoint is at its hard limit, and
	// [OverLimitRefuse] was asked for.
	ErrOverLimit = errors.New("affinity: every eligible endpoint is at its limit; try again later, raise Limit (client.WithLimit), or use OverLimitExceed (no client.WithRefusal or WithLimitWait)")
	// ErrRoutingID: the cache key is not one that [FixedPrefix] allows.
	ErrRoutingID = fmt.Errorf("affinity: with the fixed-prefix strategy a cache key must be ASCII and at most %d characters; hash a longer one", maxRoutingID)
	// ErrModelNotServed is what errors.Is finds in a [ModelError].
	ErrModelNotServed = errors.New("affinity: model not served")
	// ErrStickyGone is what errors.Is finds in a [StickyError].
	ErrStickyGone = errors.New("affinity: sticky endpoint gone")
)

var errDraining = fmt.Errorf("%w (all that could serve this are draining)", ErrNoEndpoints)

// ModelError says that no endpoint serves the model that was asked for.
type ModelError struct {
	Model  string
	Served []string // by the endpoints that are known, sorted
}

func (e *ModelError) Error() string {
	const most = 16 // enough to see a typing error in a message of one line
	served := "none is known"
	if n := len(e.Served); n > most {
		served = fmt.Sprintf("%s and %d more", strings.Join(e.Served[:most], ", "), n-most)
	} else if n > 0 {
		served = strings.Join(e.Served, ", ")
	}
	return fmt.Sprintf("affinity: no endpoint serves the model %q; ask for a served one (%s), or load it on an instance", e.Model, served)
}

// Is makes errors.Is(err, ErrModelNotServed) true.
func (e *ModelError) Is(target error) bool { return target == ErrModelNotServed }

// StickyError says that the one endpoint that can serve a request cannot get
// it any more.
type StickyError struct {
	Endpoint string
	Draining bool // it is still there but takes nothing new
}

func (e *StickyError) Error() string {
	state := "has left the fleet"
	if e.Draining {
		state = "is draining"
	}
	return fmt.Sprintf("affinity: endpoint %q holds the state of this request and %s; start over with the whole conversation", e.Endpoint, state)
}

// Is makes errors.Is(err, ErrStickyGone) true.
func (e *StickyError) Is(target error) bool { return target == ErrStickyGone }
