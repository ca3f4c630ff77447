package affinity

import "fmt"

// FixedPrefixOptions configure the [FixedPrefix] strategy, which is Amazon
// SageMaker's prefix-aware routing (API reference, PrefixAwareRoutingConfig):
// requests that share their first bytes or characters go to one instance,
// until that has a number of them in flight; then to an instance with more
// available capacity.
type FixedPrefixOptions struct {
	// Length is the number of bytes or characters that make the prefix, from
	// 1,024 to 65,536. SageMaker has no default; 0 means 4,096, which had the
	// most cache hits of 1,024, 4,096, 16,384 and 65,536 on a recorded trace
	// of chats in simulation. Agents with long tool definitions need more.
	Length int
	// Concurrency is the number of requests in flight on the instance that the
	// prefix selects at which the next one goes elsewhere, from 1 to 1,024.
	// SageMaker has no default; 0 means 24, the value with which the
	// simulations of this rule were run, taken as plausible and not compared
	// with others. It is absolute, so it wants setting anew whenever the size
	// of the fleet or of its instances changes.
	Concurrency int
}

// The ranges are SageMaker's.
const (
	minPrefixLength, maxPrefixLength, defaultPrefixLength = 1024, 65536, 4096
	maxConcurrency, defaultConcurrency                    = 1024, 24
	maxRoutingID                                          = 64
)

func (o *FixedPrefixOptions) validate() error {
	switch {
	case o.Length != 0 && (o.Length < minPrefixLength || o.Length > maxPrefixLength):
		return fmt.Errorf("affinity: FixedPrefix.Length is %d; use 0 for the default of %d, or a number from %d to %d",
			o.Length, defaultPrefixLength, minPrefixLength, maxPrefixLength)
	case o.Concurrency < 0 || o.Concurrency > maxConcurrency:
		return fmt.Errorf("affinity: FixedPrefix.Concurrency is %d; use 0 for the default of %d, or a number from 1 to %d",
			o.Concurrency, defaultConcurrency, maxConcurrency)
	}
	if o.Length == 0 {
		o.Length = defaultPrefixLength
	}
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	return nil
}

// FixedPrefix returns the options of that strategy, with the defaults filled
// in: whoever makes requests needs the length.
func (r *Router) FixedPrefix() FixedPrefixOptions { return r.prefix }

// prefixKey returns the key of the request's first length bytes or characters,
// 0 if they are not known. The cache key is SageMaker's routing id, combined
// with the prefix; a session has no part in its rule.
func (r *Request) prefixKey(length int) (uint64, error) {
	if err := CheckRoutingID(r.CacheKey); err != nil {
		return 0, err
	}
	hash := r.Prefix
	for i := 0; hash == 0 && i < len(r.Boundaries); i++ {
		// Without an exact prefix, the longest known one that fits in it; or
		// the shortest, if even that is longer.
		if i+1 == len(r.Boundaries) || r.Boundaries[i+1].Bytes > length {
			hash = r.Boundaries[i].Hash
		}
	}
	if hash == 0 {
		return 0, nil
	}
	return r.scope().key(domainPrefix, hash), nil
}

// CheckRoutingID returns [ErrRoutingID] for a cache key that SageMaker would
// refuse as a routing id, and so [FixedPrefix] does: one of more than 64
// characters, or of others than ASCII.
func CheckRoutingID(id string) error {
	if len(id) > maxRoutingID {
		return ErrRoutingID
	}
	for i := range len(id) {
		if id[i] >= 0x80 {
			return ErrRoutingID
		}
	}
	return nil
}

// fixedPrefix picks the home of the first bytes or characters or, from the
// threshold on, whichever endpoint is the least loaded.
func (r *Router) fixedPrefix(c *choice, tried []string) {
	home := c.home
	if c.reason = c.barred(tried); c.reason == ReasonNone {
		if home.tally.acquire(home.stricter(int64(r.prefix.Concurrency))) {
			c.slot, c.reason = home, ReasonHome
			return
		}
		c.reason = ReasonOverflowLoad
	}
	if c.slot = r.takeLeast(c, tried); c.slot == home {
		c.reason = ReasonHome // none has more capacity
	}
}

// stricter returns the smaller of the slot's hard limit and another.
func (s *slot) stricter(limit int64) int64 {
	if s.limit > 0 {
		return min(s.limit, limit)
	}
	return limit
}
