package discovery

import "errors"

// Health is the verdict on an endpoint, reached after a streak of probes.
type Health uint8

const (
	// Unknown: no verdict yet, probing is off, or the engine has no health path.
	Unknown Health = iota
	// Healthy: the endpoint answers its health probes.
	Healthy
	// Unhealthy: it failed a whole streak of them.
	Unhealthy
)

// String returns "unknown", "healthy" or "unhealthy".
func (h Health) String() string {
	switch h {
	case Healthy:
		return "healthy"
	case Unhealthy:
		return "unhealthy"
	default:
		return "unknown"
	}
}

// ErrNoHealthPath is in a member's HealthErr when the engine answers but has no
// health endpoint for us (404, 405, 501, or 401 and 403 from something in front of
// it). That says nothing about its health, which stays Unknown.
var ErrNoHealthPath = errors.New("no health endpoint here")

// outcome is what one health probe said.
type outcome uint8

const (
	passed outcome = iota
	failed
	silent // an answer that says nothing about health: see ErrNoHealthPath
)

// verdict is the health of one place and the streak towards the next verdict. It is
// a value; after makes the next one.
type verdict struct {
	health Health
	fails  int
	passes int
	// proven: it answered 200 here before, so that a later 404 is a failure: the
	// engine behind a gateway is gone, not its health path.
	proven bool
	silent bool // the last probe was answered without a verdict
}

// after returns the verdict with one more probe counted. The first pass of a place
// nothing is known about counts at once; a place once judged needs a streak.
func (v verdict) after(o outcome, failAfter, passAfter int) verdict {
	if o == silent && v.proven {
		o = failed
	}
	v.silent = o == silent
	switch o {
	case passed:
		v.fails, v.proven = 0, true
		v.passes++
		if v.health == Unknown || v.passes >= passAfter {
			v.health = Healthy
		}
	case failed:
		v.passes = 0
		v.fails++
		if v.fails >= failAfter {
			v.health = Unhealthy
		}
	case silent:
		v.fails, v.passes, v.health = 0, 0, Unknown
	}
	return v
}

// leaning reports whether the last probe spoke against the verdict, so that the
// next should come soon.
func (v verdict) leaning() bool {
	return v.fails > 0 && v.health != Unhealthy || v.passes > 0 && v.health == Unhealthy
}
