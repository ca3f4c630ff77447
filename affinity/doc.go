// Package affinity decides which endpoint serves a request, and keeps exact
// count of what is in flight where.
//
// It knows neither HTTP nor JSON: a [Request] is a handful of hashes and hints,
// an [Endpoint] is a value that says what placement must know of one instance,
// and the answer is a [Lease] that is released when the request is over.
//
//	router, err := affinity.New(affinity.Options{})
//	err = router.Set([]affinity.Endpoint{{ID: "http://a:8000"}, {ID: "http://b:8000"}})
//	lease, err := router.Pick(&affinity.Request{Head: head, Root: root})
//	defer lease.Release(affinity.Outcome{Status: 200, PromptTokens: -1, CachedTokens: -1})
//	send(lease.Endpoint())
//
// # How a pick goes
//
//  1. Eligibility: endpoints that serve the request's model and do not drain.
//     Those that health calls unavailable are left out, unless that leaves
//     nothing (fail open: a wrong health check must not stop the service).
//  2. Key: the conversation's root, or the session that replaces it, kept apart
//     by tenant and cache key (see [Request.Keys]).
//  3. Order: rendezvous hashing gives every key its own order of the endpoints
//     (see [Order]). Clients that know the same endpoints agree on it without
//     talking to one another.
//  4. Load: the first of the order, the home, unless it is full. Then the next
//     of the same order, so that what overflows from a home warms the same
//     second endpoint in every client.
//
// That is [Affinity], the default. The other strategies answer step 3 and 4
// differently; [Router.SetStrategy] switches between them while requests are
// in flight.
//
// # What is counted
//
// The in-flight count of an endpoint rises within the pick, before Pick
// returns, and falls when the lease is released: once, however often Release
// is called, and on the counter that was raised, even when the endpoint has
// left the fleet or has left and come back meanwhile. Counts are never reset.
// They are this process's own: other clients' requests are not in them.
//
// # Where things are
//
// The file names are the map: request.go and keys.go say what is hashed,
// rendezvous.go and log2.go how it is ordered, snapshot.go what a pick sees of
// the fleet, pick.go how a pick runs, bounded.go, fixed.go, least.go and
// spread.go the strategies, lease.go and tally.go the counting.
package affinity
