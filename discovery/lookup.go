package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Lookup is what the DNS resolvers need; a *net.Resolver has it.
type Lookup interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Family says which addresses of a name count.
type Family uint8

const (
	// PreferIPv4, the default, takes the IPv4 addresses and, where the name has
	// none, the IPv6 ones. A dual-stack headless service publishes both for the
	// same pod: taking all would make two endpoints of each instance.
	PreferIPv4 Family = iota
	// PreferIPv6 takes the IPv6 addresses and, where there are none, IPv4.
	PreferIPv6
	// OnlyIPv4 takes nothing but IPv4 addresses.
	OnlyIPv4
	// OnlyIPv6 takes nothing but IPv6 addresses.
	OnlyIPv6
	// EveryAddress makes every address an endpoint, of both families.
	EveryAddress
)

// networks lists what to ask for in turn.
func (f Family) networks() []string {
	switch f {
	case PreferIPv6:
		return []string{"ip6", "ip4"}
	case OnlyIPv4:
		return []string{"ip4"}
	case OnlyIPv6:
		return []string{"ip6"}
	case EveryAddress:
		return []string{"ip"}
	default:
		return []string{"ip4", "ip6"}
	}
}

// DefaultLookupTimeout bounds one lookup. The Go resolver asks a server again
// after 5 s (resolv.conf's default), so anything shorter gives up after one lost
// packet.
const DefaultLookupTimeout = 10 * time.Second

// An Option changes how [DNS], [SRV] and [Parse] look names up.
type Option interface{ apply(*lookup) }

type optionFunc func(*lookup)

func (f optionFunc) apply(l *lookup) { f(l) }

// WithLookup asks r instead of net.DefaultResolver: a resolver with its own Dial,
// one with caching, or a fake.
func WithLookup(r Lookup) Option {
	return optionFunc(func(l *lookup) {
		if r != nil {
			l.asker = r
		}
	})
}

// WithFamily chooses among IPv4 and IPv6 addresses; the default is PreferIPv4.
func WithFamily(f Family) Option { return optionFunc(func(l *lookup) { l.family = f }) }

// WithLookupTimeout bounds each lookup; the default is [DefaultLookupTimeout],
// which zero or less means too.
func WithLookupTimeout(d time.Duration) Option {
	return optionFunc(func(l *lookup) {
		if d > 0 {
			l.timeout = d
		}
	})
}

// lookup is one way to ask for names.
type lookup struct {
	asker   Lookup
	family  Family
	timeout time.Duration
}

func newLookup(opts []Option) lookup {
	l := lookup{asker: net.DefaultResolver, timeout: DefaultLookupTimeout}
	for _, o := range opts {
		if o != nil {
			o.apply(&l)
		}
	}
	return l
}

// addresses returns the addresses of host by the family policy: unmapped, sorted,
// each once, never empty without an error.
func (l lookup) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil // nothing to look up, in no family
	}
	var last error
	for _, network := range l.family.networks() {
		addrs, err := l.ask(ctx, network, host)
		if len(addrs) > 0 {
			return addrs, nil
		}
		if err == nil {
			err = ErrNoEndpoints
		}
		// Only "there are none" opens the way to the other family. Falling over
		// on a timeout would swap every identity of a dual-stack fleet at once.
		if !isNotFound(err) {
			return nil, err
		}
		if last == nil {
			last = err
		}
	}
	return nil, last
}

func (l lookup) ask(ctx context.Context, network, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	addrs, err := l.asker.LookupNetIP(ctx, network, host)
	if err != nil {
		return nil, timeoutError(ctx, err, l.timeout)
	}
	out := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		a = a.Unmap()
		if !a.IsValid() || network == "ip4" && !a.Is4() || network == "ip6" && !a.Is6() {
			continue
		}
		out = append(out, a)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// timeoutError says which deadline it was: the resolver's own text is "i/o timeout".
func timeoutError(ctx context.Context, err error, limit time.Duration) error {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("no answer within %v: %w", limit, err)
	}
	return err
}

// isNotFound reports the answers that say there is no such name or record.
func isNotFound(err error) bool {
	var dns *net.DNSError
	return errors.Is(err, ErrNoEndpoints) || errors.As(err, &dns) && dns.IsNotFound
}
