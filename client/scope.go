package client

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/prefixwise/prefixwise/middleware"
)

// scope sends requests for the fleet to the fleet, and others where they say.
// Requests for the fleet are as its engines expect them after it, whatever SDK
// has made them.
type scope struct {
	fleet     http.RoundTripper
	transport *middleware.Transport
	other     http.RoundTripper
	keyed     bool // the fleet has a key of its own
}

func (s *scope) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, errors.New("prefixwise: the request has no URL; make it with http.NewRequest and Client.BaseURL")
	}
	if req.URL.Host == fleetHost {
		resp, err := s.fleet.RoundTrip(s.adapt(req))
		if err == nil {
			keepAnswer(req.Context(), resp)
		}
		return resp, err
	}
	if s.other != nil {
		return s.other.RoundTrip(req)
	}
	return http.DefaultTransport.RoundTrip(req)
}

// adapt returns req, or a copy of it in which what an SDK does otherwise than
// OpenAI's is undone.
func (s *scope) adapt(req *http.Request) *http.Request {
	twice := strings.HasPrefix(req.URL.Path, "/v1/v1/")
	key := req.Header.Get("X-Api-Key")
	if !twice && key == "" {
		return req
	}
	out := req.WithContext(req.Context())
	if twice {
		// Anthropic's SDK adds /v1 to a base URL that has it already.
		u := new(url.URL)
		*u = *req.URL
		u.Path, u.RawPath = strings.TrimPrefix(u.Path, "/v1"), strings.TrimPrefix(u.RawPath, "/v1")
		out.URL = u
	}
	if key != "" {
		// Where Anthropic's SDK puts the key. vLLM reads Authorization only; a
		// proxy in front of it may want the other, unless the fleet's own key is
		// known: then this is another service's.
		out.Header = req.Header.Clone()
		if out.Header.Get("Authorization") == "" {
			out.Header.Set("Authorization", "Bearer "+key)
		}
		if s.keyed {
			out.Header.Del("X-Api-Key")
		}
	}
	return out
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the fleet's
// connections; those of http.DefaultTransport are not ours.
func (s *scope) CloseIdleConnections() { s.transport.CloseIdleConnections() }
