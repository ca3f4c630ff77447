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
//  4. Choice: among the first four of the order, the endpoint of the
//     conversation's last turn, and those that this router itself has sent more
//     of the prompt to, the one that costs least: the wait there, the time to
//     compute what it does not have, what that delays for others, and, away
//     from home, what the next turn will compute again.
//
// That is [Affinity], the default. The other strategies answer step 3 and 4
// differently; [Router.SetStrategy] switches between them while requests are
// in flight.
//
// # What the choice knows
//
// Waits come from the engines' gauges, read about once a second off the request
// path ([Router.Observe]), and from what this router has sent since. Without
// gauges they come from its own requests alone, and what other clients send is
// not seen. The time to compute is learned from responses that report
// cached_tokens and from their times to first token; until then it is a guess.
// What an endpoint has of a prompt is known from a bounded memory of what was
// sent where, of hashes only; what it refused is taken back. And the fleet's KV
// memory, which the gauges tell as well, decides on how many endpoints a head
// (tools and system text) may live: many long heads on few small caches are divided
// among them. A head that is most of a prompt, as a document is, gets another copy
// for every eight requests only, however much room there is; and while it has one
// copy, its requests wait for that, for about as long as making another takes. Each process
// counts its own requests: many that send few of them meet on few endpoints, which
// only the waits that the gauges show, and their own requests in flight, spread.
// A head that is the only one that a process has seen is not confined.
//
// An application that carries the endpoint of a conversation's last turn along
// ([Request.Last]) tells what no client can know otherwise: in replays it is
// worth up to a third of the time to first token. Otherwise, when more than
// three in ten later turns follow one that another client sent and find what it
// left, clients have to meet without talking: only the first two of the order are
// considered, the home is trusted to have what others sent, and an endpoint that has
// got more than its share of computing over ten minutes hands on a fixed part of its
// keys, the same in every client, to that of each key's order that has got the least.
// Where caches forget before the next turn comes, there is nothing to meet for: all
// four are considered, and the home is trusted as far as it has been right.
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
// the fleet, pick.go how a pick runs, lease.go and tally.go the counting,
// eject.go who is set aside. The default strategy begins in affine.go, with
// candidates.go (whom to consider), carried.go (who served the last turn),
// price.go (what it costs), index.go and recall.go (who has what), heads.go (how far a head
// spreads), gauges.go and backlog.go (what the engines say), booking.go (what
// they cannot say yet) and speed.go (how long computing takes); the other
// strategies are bounded.go, fixed.go, least.go and spread.go.
package affinity
