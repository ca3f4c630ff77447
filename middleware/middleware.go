package middleware

import "net/http"

// Middleware wraps an http.RoundTripper with another one. The values that
// this package returns are safe for concurrent use when the wrapped
// http.RoundTripper is.
type Middleware = func(next http.RoundTripper) http.RoundTripper

// Chain composes middleware; the first is the outermost. Nil entries are
// skipped, so that optional pieces can be written in place.
func Chain(all ...Middleware) Middleware {
	return func(next http.RoundTripper) http.RoundTripper {
		for i := len(all) - 1; i >= 0; i-- {
			if all[i] != nil {
				next = all[i](next)
			}
		}
		return next
	}
}

// roundTripperFunc hides every method of the wrapped transport but RoundTrip.
// That matters for CloseIdleConnections: go-retryablehttp v0.7.8 calls it
// after every failed or cancelled call, which would close the idle
// connections of the whole fleet.
type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
