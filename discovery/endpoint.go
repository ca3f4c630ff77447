package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// NoRank is the Rank of an endpoint that is not one rank of a data-parallel
// engine.
const NoRank = -1

// An Endpoint is one place to send requests to. It is a value; the URL it
// points to is shared and must not be modified.
//
// [ParseURL] makes one with everything set. In a literal, mind that Rank 0 is
// the first rank of a data-parallel engine: write NoRank.
type Endpoint struct {
	// ID is the stable identity: the configured name, otherwise the normalized
	// scheme://host:port with any path prefix, and "#" with the rank where
	// there is one. The port is always written.
	ID string

	// URL is scheme://host[:port] with any path prefix, without "/v1" and
	// without a trailing slash. Its host is the name to verify in TLS and to
	// send as Host, also when Addr says where to dial. A default port (80 for
	// http, 443 for https) is left out, so that Host is what a browser would
	// send: some gateways match Host exactly.
	URL *url.URL

	// Addr is where to dial when the endpoint was resolved from a name; the
	// zero value means that the host of URL is dialled.
	Addr netip.AddrPort

	// Rank is the data-parallel rank behind URL, NoRank (-1) for none.
	Rank int

	// Weight is the relative capacity; 0 counts as 1.
	Weight uint32
}

// String returns the identity.
func (e Endpoint) String() string { return e.ID }

// DialAddress returns host:port to dial: Addr when it is known, otherwise the
// host of URL with its port or the default port of its scheme.
func (e Endpoint) DialAddress() string {
	if e.Addr.IsValid() {
		return e.Addr.String()
	}
	if e.URL == nil {
		return ""
	}
	return net.JoinHostPort(e.URL.Hostname(), strconv.Itoa(int(portOf(e.URL))))
}

// equal reports whether a router could not tell the two apart.
func (e Endpoint) equal(o Endpoint) bool {
	return e.ID == o.ID && e.Addr == o.Addr && e.Rank == o.Rank && e.Weight == o.Weight &&
		e.URL.String() == o.URL.String()
}

// A Resolver answers who is in the fleet, once and as a whole set. An error or
// an empty answer means "not known now", never "nobody": [Watch] then keeps
// what it had. Resolve must honour the context and be safe for concurrent use.
type Resolver interface {
	Resolve(ctx context.Context) ([]Endpoint, error)
}

// ErrNoEndpoints is what a lookup that succeeded with nothing in it becomes.
var ErrNoEndpoints = errors.New("the answer has no endpoints")

// identity is the normalized spelling of u with the given host and port.
func identity(u *url.URL, host string, port uint16) string {
	id := url.URL{
		Scheme: u.Scheme,
		Host:   net.JoinHostPort(strings.TrimSuffix(host, "."), strconv.Itoa(int(port))),
		Path:   u.Path,
	}
	return id.String()
}

// identityOf is the identity of the endpoint that u itself names.
func identityOf(u *url.URL) string { return identity(u, u.Hostname(), portOf(u)) }

// portOf returns the port of a normalized URL.
func portOf(u *url.URL) uint16 {
	if p, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(p)
	}
	return defaultPort(u.Scheme)
}

func defaultPort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}

// hostPort writes the host part of a URL, without the default port.
func hostPort(scheme, host string, port uint16) string {
	if port != defaultPort(scheme) {
		return net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// check completes an endpoint that may come from somebody else's Resolver, or
// says what is wrong with it.
func (e Endpoint) check(allowLinkLocal bool) (Endpoint, error) {
	if e.URL == nil {
		return e, fmt.Errorf("discovery: endpoint %q has no URL", e.ID)
	}
	u, err := normalizeURL(e.URL.String())
	if err != nil {
		return e, err
	}
	e.URL = u
	if e.ID == "" {
		// A literal with nothing but a URL: its zero rank means none.
		if e.Rank <= 0 {
			e.Rank = NoRank
		}
		e.ID = rankID(identityOf(u), e.Rank)
	}
	if e.Rank < NoRank {
		return e, fmt.Errorf("discovery: endpoint %q has rank %d: write discovery.NoRank for none", e.ID, e.Rank)
	}
	addr := e.Addr.Addr()
	if !addr.IsValid() {
		if addr, err = netip.ParseAddr(u.Hostname()); err != nil {
			return e, nil // a name: whoever dials it checks the address
		}
	}
	if err := checkAddr(addr, allowLinkLocal); err != nil {
		return e, fmt.Errorf("discovery: endpoint %q: %w", e.ID, err)
	}
	return e, nil
}
