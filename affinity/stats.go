package affinity

import (
	"cmp"
	"slices"
	"time"
)

// EndpointStats are the counts of one endpoint since the router was made, or
// since the endpoint was first seen. They are this router's own.
type EndpointStats struct {
	ID string
	// Member tells whether the endpoint is in the present set; one that left
	// is listed while it has requests in flight.
	Member, Unavailable, Draining bool
	// Aside tells whether it is set aside because it failed or asked for it,
	// and Ejections how often it was; see [Ejection].
	Aside     bool
	Ejections uint64
	// InFlight is the number of leases that are out.
	InFlight int
	// Picks counts all leases given out, and Share is their part of the picks
	// of all endpoints listed, 0 to 1.
	Picks uint64
	Share float64
	// Reasons splits Picks; Overflows is the part of them that load, a limit,
	// health or an earlier try decided ([Reason.Overflow]).
	Reasons   map[Reason]uint64
	Overflows uint64
	// Away counts the requests that had their home here and went elsewhere.
	Away uint64
	// Released counts the leases that have ended; Failed those of them that
	// failed by the endpoint's doing ([Outcome.Remote]).
	Released, Failed uint64
	// Held is the time that all released leases were out, added up.
	Held time.Duration
	// PromptTokens and CachedTokens add up what engines reported, over the
	// requests for which they reported both.
	PromptTokens, CachedTokens uint64
	// ForeseenTokens is how many tokens the strategy Affinity knew to have been
	// sent here before, or was told by the application, of ForeseenOf tokens of
	// prompt: of those requests in PromptTokens whose prompt was known when it
	// picked.
	ForeseenTokens, ForeseenOf uint64
}

// Stats returns the counts of every endpoint, sorted by ID. Each number is
// exact; numbers of one call may be apart by the picks and releases that
// happen during it. It does not hold up picks.
func (r *Router) Stats() []EndpointStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	stats := make([]EndpointStats, 0, len(r.members))
	for i := range r.members {
		m := &r.members[i]
		e := r.tallies[m.ID].stats()
		e.Member, e.Unavailable, e.Draining = true, m.Unavailable, m.Draining
		e.Aside = r.tallies[m.ID].standing.aside()
		stats = append(stats, e)
	}
	for _, t := range r.tallies {
		if t.left != 0 && t.load() != 0 {
			stats = append(stats, t.stats())
		}
	}
	slices.SortFunc(stats, func(a, b EndpointStats) int { return cmp.Compare(a.ID, b.ID) })
	var picks uint64
	for i := range stats {
		picks += stats[i].Picks
	}
	for i := range stats {
		stats[i].Share = float64(stats[i].Picks) / float64(max(picks, 1))
	}
	return stats
}

func (t *tally) stats() EndpointStats {
	e := EndpointStats{
		ID: t.id, InFlight: int(t.load()), Reasons: map[Reason]uint64{},
		Away: t.away.Load(), Released: t.released.Load(), Failed: t.failed.Load(),
		Held:         time.Duration(t.held.Load()),
		Ejections:    t.ejections.Load(),
		PromptTokens: t.prompt.Load(), CachedTokens: t.cached.Load(),
		ForeseenTokens: t.foreseen.Load(), ForeseenOf: t.foreseenOf.Load(),
	}
	for i := range t.picks {
		n := t.picks[i].Load()
		if n == 0 {
			continue
		}
		reason := Reason(i)
		e.Picks += n
		e.Reasons[reason] = n
		if reason.Overflow() {
			e.Overflows += n
		}
	}
	return e
}
