package discovery

import (
	"slices"
	"time"
)

// A Member is an endpoint of the fleet and what is known about it. Members are
// values that share their URL and Models: treat both as read-only.
type Member struct {
	Endpoint

	// Health is the verdict of the health probes. It is advice: an unhealthy member
	// stays in the set, and when all are unhealthy the probes are probably wrong.
	Health Health

	// Models are the names of the models and LoRA adapters it serves, sorted; nil
	// means unknown, which must count as "any".
	Models []string

	// Refuses is true when the last health probe could not connect: nothing listens
	// there, or it cannot be reached.
	Refuses bool

	// HealthErr is why the last health probe failed, nil when it passed.
	HealthErr error
	// ModelsErr is why the last reading of /v1/models failed, nil when it worked.
	// Models then is what was known before, or nil where the engine answered and
	// would not say (401, 403, 404).
	ModelsErr error

	// Since is when Health got its value.
	Since time.Time
}

// equal reports whether a router could not tell the two apart.
func (m Member) equal(o Member) bool {
	return m.Health == o.Health && m.Refuses == o.Refuses && m.Endpoint.equal(o.Endpoint) &&
		(m.Models == nil) == (o.Models == nil) && slices.Equal(m.Models, o.Models)
}
