// Package middleware holds the pieces of a Prefixwise client that work on
// HTTP, each a func(http.RoundTripper) http.RoundTripper.
//
// From the outermost to the innermost, with what each adds:
//
//  1. [Observe] and [Log] report what became of each call, and a [Recorder]
//     writes it to a file.
//  2. [Canonicalize] rewrites the request body to its canonical bytes and
//     leaves the prompt's hashes in the request's context.
//  3. [Retry] sends a failed attempt again, to another endpoint, within a
//     budget that all calls share.
//  4. [Route] picks an endpoint for each attempt, counts it as in flight, and
//     judges the response before the caller sees it.
//  5. [Transport] keeps one connection pool for each endpoint.
//
// A request's way through the code is that order. Package client puts the
// pieces together; they also work alone, around any http.RoundTripper:
//
//	rt := middleware.Chain(
//		middleware.Canonicalize(canonicalizer, middleware.CanonicalizeOptions{}),
//		middleware.Retry(middleware.RetryOptions{}),
//		middleware.Route(middleware.Routing{Router: router, Lookup: fleet.Lookup}),
//	)(middleware.NewTransport(middleware.TransportOptions{}))
//
// # What reaches the caller
//
// A response is returned only when its first content has arrived, so a stream
// that fails before that is an ordinary, retryable failure. The end of a
// stream ([DONE]) is withheld until every choice has finished; a stream that
// is cut, aborted or ends early is an [*Error] from Read, never a clean
// io.EOF. Nothing is sent again once a byte has reached the caller.
package middleware
