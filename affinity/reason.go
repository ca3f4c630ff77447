package affinity

// Reason says why an endpoint was picked.
type Reason uint8

// The reasons. The zero value is that of a zero Lease.
const (
	ReasonNone Reason = iota
	// ReasonHome: the key's home.
	ReasonHome
	// ReasonOverflowFull: the home was at its hard limit.
	ReasonOverflowFull
	// ReasonOverflowLoad: waiting at the home would have cost more than computing
	// elsewhere or, with BoundedLoad, it had more than its bounded share of the
	// load.
	ReasonOverflowLoad
	// ReasonCached: another endpoint than the home has more of the prompt, as
	// this router's own requests have left it there.
	ReasonCached
	// ReasonCarried: another endpoint than the home served the conversation's
	// last turn, as the application says ([Request.Last]).
	ReasonCarried
	// ReasonOverLimit: every candidate was at its hard limit, and the least
	// loaded was taken beyond it ([OverLimitExceed]).
	ReasonOverLimit
	// ReasonFailover: this call had tried the home already.
	ReasonFailover
	// ReasonUnavailable: health says that the home is unavailable.
	ReasonUnavailable
	// ReasonLeastLoaded: by load, as the strategy says or for want of a key.
	ReasonLeastLoaded
	// ReasonRoundRobin: it was this endpoint's turn.
	ReasonRoundRobin
	// ReasonRandom: by lot.
	ReasonRandom
	// ReasonSticky: the request named its endpoint.
	ReasonSticky
	reasonCount
)

var reasonNames = [reasonCount]string{
	ReasonNone: "none", ReasonHome: "home",
	ReasonOverflowFull: "overflow-full", ReasonOverflowLoad: "overflow-load", ReasonOverLimit: "over-limit",
	ReasonCached: "cached", ReasonCarried: "carried",
	ReasonFailover: "failover", ReasonUnavailable: "unavailable",
	ReasonLeastLoaded: "least-loaded", ReasonRoundRobin: "round-robin", ReasonRandom: "random",
	ReasonSticky: "sticky",
}

// String returns the reason in kebab case, such as "overflow-load".
func (r Reason) String() string {
	if r < reasonCount {
		return reasonNames[r]
	}
	return "unknown"
}

// Overflow tells whether the request did not go where it would have gone in an
// idle and healthy fleet: because of load, a limit, health, or an earlier try.
func (r Reason) Overflow() bool {
	switch r {
	case ReasonOverflowFull, ReasonOverflowLoad, ReasonOverLimit, ReasonFailover, ReasonUnavailable:
		return true
	}
	return false
}
