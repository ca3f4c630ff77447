// Package discovery knows which instances are in the fleet: where each one is,
// whether it answers, and which models it serves. It knows nothing of prompts.
//
// There are two layers.
//
// A [Resolver] answers once, with a whole set of endpoints:
//
//   - [Static] and [List]: a fixed list of URLs or endpoints;
//   - [DNS]: the A and AAAA records of a name (a headless Kubernetes service),
//     one endpoint an address;
//   - [SRV]: the SRV records of a name, one endpoint a target, whose identity
//     survives a restart that changes its address;
//   - [Parse]: any mix of these from one string, for flags and the environment;
//   - [Join] puts resolvers together, [Ranks] splits each endpoint into its
//     data-parallel ranks;
//   - or a type of your own with one method.
//
// A [Watcher], made by [Watch], keeps resolvers up to date: it asks again with
// jitter, keeps the last good set when an answer fails or is empty, probes
// /health, /v1/models and, where [Options.OnMetrics] is set, /metrics of every
// endpoint, and publishes whole sets of
// [Member] values whenever something changed.
//
//	fleet, err := discovery.Parse("http://10.0.0.1:8000,http://10.0.0.2:8000")
//	if err != nil { … }
//	w, err := discovery.Watch(discovery.Options{
//		Resolvers: []discovery.Resolver{fleet},
//		OnChange:  func(members []discovery.Member) { … },
//	})
//	if err != nil { … }
//	defer w.Close()
//
// # Identity
//
// [Endpoint.ID] is what hashing sees, so it must not change while the instance
// is the same. It is the configured name where there is one, otherwise
// scheme://host:port and any path prefix, normalized: letter case, "/v1", a
// trailing slash or dot and an unwritten default port make no difference. An
// instance known by its address (A and AAAA records) is a new endpoint when its
// address changes; one known by an SRV target is not.
//
// # What failure does
//
// A lookup that fails, finds nothing, or finds only refused addresses changes
// nothing: the last good set stays. An endpoint leaves only after two answers
// in a row without it, the second of which is asked for within about a second,
// so that one partial answer moves no traffic. Health is a verdict after a
// streak, never one probe; it is advice to the router and removes nobody.
//
// Link-local and cloud metadata addresses are refused ([CheckAddr]) unless
// [Options.AllowLinkLocal] is set. Credentials ([Options.Header]) go to
// /v1/models of the endpoints only: never to /health or /metrics, and redirects are not
// followed.
package discovery
