package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// srvLookups is how many targets are looked up at a time: enough for a fleet of
// hundreds within one deadline, few enough not to flood a node's DNS cache.
const srvLookups = 16

// srvResolver makes an endpoint of each target of an SRV name.
type srvResolver struct {
	lookup
	url  *url.URL // scheme and path prefix; the host is that of each target
	name string

	mu   sync.Mutex
	last map[string]netip.Addr // by target: where it was when it last answered
}

// SRV returns a resolver for a name with SRV records, such as
// "_http._tcp.vllm.default.svc.cluster.local"; the records give the ports. Each
// target is an endpoint with the identity scheme://target:port, which survives a
// restart that changes its address (a StatefulSet's pods have such names). A target
// whose own lookup fails keeps the address it had; one that never had an address is
// left out until it has.
//
// Only the targets with the lowest priority number that can be found are used, as
// RFC 2782 says. Weights are taken over when they differ.
func SRV(scheme, name string, opts ...Option) (Resolver, error) {
	name = strings.TrimSpace(name)
	if i := strings.Index(name, "://"); i >= 0 {
		return nil, &URLError{Given: redact(name), Problem: "is a URL, not an SRV name", Write: bare(name)}
	}
	r, err := newSRV(scheme+"://"+name, opts)
	var bad *URLError
	if errors.As(err, &bad) && (scheme == "http" || scheme == "https") {
		return nil, &URLError{Given: redact(name), Problem: bad.Problem, Write: bare(bad.Write)}
	}
	return r, err
}

// bare is the host of a URL, for a message.
func bare(raw string) string {
	if e, err := ParseURL(suggest(raw[strings.Index(raw, "://")+len("://"):])); err == nil && e.URL.String() != exampleURL {
		return e.URL.Hostname()
	}
	return "_http._tcp.vllm.default.svc.cluster.local"
}

// newSRV takes the name as the host of a URL, whose path is a prefix for each target.
func newSRV(raw string, opts []Option) (Resolver, error) {
	u, err := normalizeURL(raw)
	if err != nil {
		return nil, err
	}
	name := u.Hostname()
	if hasPort(raw) {
		return nil, &URLError{Given: redact(raw), Problem: "has a port, which SRV records give", Write: u.Scheme + "://" + name + u.Path}
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return nil, &URLError{Given: redact(raw), Problem: "is an address, which has no SRV records", Write: u.Scheme + "://_http._tcp.vllm.default.svc.cluster.local"}
	}
	return &srvResolver{lookup: newLookup(opts), url: u, name: name, last: make(map[string]netip.Addr)}, nil
}

// hasPort reports a port in the text of a URL that normalizes.
func hasPort(raw string) bool {
	_, rest, _ := strings.Cut(raw, "://")
	authority, _, _ := strings.Cut(rest, "/")
	return strings.LastIndexByte(authority, ':') > strings.LastIndexByte(authority, ']')
}

// target is one usable SRV record.
type target struct {
	host     string // as answered: with the dot that makes it a full name
	port     uint16
	priority uint16
	weight   uint16
}

// Resolve implements Resolver.
func (s *srvResolver) Resolve(ctx context.Context) ([]Endpoint, error) {
	targets, err := s.targets(ctx)
	if err != nil {
		return nil, fmt.Errorf("discovery: SRV records of %s: %w", s.name, err)
	}
	addrs, lookupErr := s.locate(ctx, targets)
	var endpoints []Endpoint
	for i := 0; i < len(targets); {
		end := i
		for end < len(targets) && targets[end].priority == targets[i].priority {
			end++
		}
		endpoints = s.endpoints(targets[i:end], addrs)
		if len(endpoints) > 0 {
			return endpoints, nil
		}
		i = end
	}
	return nil, fmt.Errorf("discovery: no target of %s has an address: %w", s.name, lookupErr)
}

// targets asks for the records, drops unusable ones and sorts by priority, name and
// port. The order of the answer is random by RFC 2782 and must not show.
func (s *srvResolver) targets(ctx context.Context) ([]target, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, records, err := s.asker.LookupSRV(ctx, "", "", s.name)
	// net.Resolver may give usable records and an error about malformed others.
	if len(records) == 0 && err != nil {
		return nil, timeoutError(ctx, err, s.timeout)
	}
	var out []target
	for _, r := range records {
		if r == nil || r.Port == 0 {
			continue
		}
		host := strings.ToLower(r.Target)
		if nameProblem(host) != "" { // "." says that the service is not offered
			continue
		}
		out = append(out, target{host: host, port: r.Port, priority: r.Priority, weight: r.Weight})
	}
	if len(out) == 0 {
		return nil, ErrNoEndpoints
	}
	slices.SortFunc(out, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.host, b.host), cmp.Compare(a.port, b.port))
	})
	return slices.CompactFunc(out, func(a, b target) bool {
		return a.host == b.host && a.port == b.port
	}), nil
}

// locate returns where each target is, the last known place for those that cannot
// be looked up now, and the first error.
func (s *srvResolver) locate(ctx context.Context, targets []target) (map[string]netip.Addr, error) {
	s.mu.Lock()
	found := make(map[string]netip.Addr, len(targets))
	for _, t := range targets {
		if a, ok := s.last[t.host]; ok {
			found[t.host] = a
		}
	}
	s.mu.Unlock()

	var (
		mu    sync.Mutex
		first error
		group errgroup.Group
		asked = make(map[string]bool, len(targets))
	)
	group.SetLimit(srvLookups)
	for _, t := range targets {
		if asked[t.host] {
			continue
		}
		asked[t.host] = true
		group.Go(func() error {
			addrs, err := s.addresses(ctx, t.host)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if first == nil {
					first = err
				}
				return nil
			}
			found[t.host] = choose(addrs, found[t.host])
			return nil
		})
	}
	_ = group.Wait() // no function returns an error

	s.mu.Lock()
	s.last = found // forgets the targets that are gone
	s.mu.Unlock()
	return found, first
}

// choose takes one of a target's addresses: the one it had, else the first that may
// be dialled.
func choose(addrs []netip.Addr, had netip.Addr) netip.Addr {
	if slices.Contains(addrs, had) {
		return had
	}
	for _, a := range addrs {
		if CheckAddr(a) == nil {
			return a
		}
	}
	return addrs[0]
}

// endpoints makes the endpoints of one priority.
func (s *srvResolver) endpoints(targets []target, addrs map[string]netip.Addr) []Endpoint {
	var out []Endpoint
	weights := shares(targets)
	for i, t := range targets {
		addr, ok := addrs[t.host]
		if !ok {
			continue
		}
		out = append(out, Endpoint{
			ID:     identity(s.url, t.host, t.port),
			URL:    withHost(s.url, t.host, t.port),
			Addr:   netip.AddrPortFrom(addr, t.port),
			Rank:   NoRank,
			Weight: weights[i],
		})
	}
	return out
}

// shares turns SRV weights into weights. Equal ones become 0, "no weight": cluster
// DNS writes 100/n, which must not look like a change whenever n changes. Others are
// divided by their common divisor; 0 beside larger ones means "hardly ever".
func shares(targets []target) []uint32 {
	out := make([]uint32, len(targets))
	var divisor uint32
	equal := true
	for i, t := range targets {
		out[i] = max(1, uint32(t.weight))
		divisor = gcd(divisor, out[i])
		equal = equal && t.weight == targets[0].weight
	}
	for i := range out {
		if equal {
			out[i] = 0
		} else {
			out[i] /= divisor
		}
	}
	return out
}

func gcd(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

var _ Lookup = (*net.Resolver)(nil)
