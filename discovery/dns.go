package discovery

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// dnsResolver makes an endpoint of each address of a name.
type dnsResolver struct {
	lookup
	url  *url.URL // host without a trailing dot: the name for TLS and Host
	name string   // as configured: a trailing dot keeps the search list out
	port uint16
}

// DNS returns a resolver for a name whose A and AAAA records are the instances,
// such as a headless Kubernetes service. Scheme, port and path prefix come from the
// URL, as in "http://vllm.default.svc.cluster.local:8000" ("dns+http://…" is the
// same). Each address is an endpoint with the identity scheme://address:port; its
// URL keeps the name, for TLS and the Host header, and Addr says where to dial.
//
// End a full name with a dot to keep the search list of resolv.conf out of it:
// with Kubernetes' ndots:5 each lookup is otherwise up to six.
func DNS(rawURL string, opts ...Option) (Resolver, error) {
	kind, raw := cutKind(strings.TrimSpace(rawURL))
	if kind == "srv" {
		raw = rawURL // refused there
	}
	u, err := normalizeURL(raw)
	if err != nil {
		return nil, err
	}
	return &dnsResolver{lookup: newLookup(opts), url: withHost(u, u.Hostname(), portOf(u)), name: u.Hostname(), port: portOf(u)}, nil
}

// withHost is u at another host, written without a trailing dot.
func withHost(u *url.URL, host string, port uint16) *url.URL {
	c := *u
	c.Host = hostPort(u.Scheme, strings.TrimSuffix(host, "."), port)
	return &c
}

// Resolve implements Resolver.
func (d *dnsResolver) Resolve(ctx context.Context) ([]Endpoint, error) {
	addrs, err := d.addresses(ctx, d.name)
	if err != nil {
		return nil, fmt.Errorf("discovery: addresses of %s: %w", d.name, err)
	}
	endpoints := make([]Endpoint, len(addrs))
	for i, a := range addrs {
		endpoints[i] = Endpoint{
			ID:   identity(d.url, a.String(), d.port),
			URL:  d.url,
			Addr: netip.AddrPortFrom(a, d.port),
			Rank: NoRank,
		}
	}
	return endpoints, nil
}
