package discovery

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// ErrAddrRefused is wrapped by every error of [CheckAddr].
var ErrAddrRefused = errors.New("address refused")

// An AddrError says which address was refused and why.
type AddrError struct {
	Addr netip.Addr
	Kind string // "link-local", "metadata", "unspecified", "multicast", "broadcast" or "invalid"
}

// Error implements error.
func (e *AddrError) Error() string {
	hint := ""
	if e.Kind == "link-local" || e.Kind == "metadata" {
		hint = "; set AllowLinkLocal (client.WithLinkLocal) if an engine really lives there"
	}
	return fmt.Sprintf("%s address %s is refused%s", e.Kind, e.Addr, hint)
}

// Unwrap makes errors.Is(err, ErrAddrRefused) true.
func (e *AddrError) Unwrap() error { return ErrAddrRefused }

// metadata lists the cloud metadata services outside the link-local ranges, as
// their vendors document them. A name that can be pointed at one of these turns
// a client that sends credentials into a way to read the machine's own.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure (WireServer)
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud, classic
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS: metadata ::254, pod identity ::23
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
}

// embedded lists the IPv6 ranges whose last four bytes are an IPv4 address that
// the packets may reach.
var embedded = []netip.Prefix{
	netip.MustParsePrefix("64:ff9b::/96"), // NAT64, RFC 6052
	netip.MustParsePrefix("::/96"),        // IPv4-compatible, RFC 4291 2.5.5.1
}

// CheckAddr says whether an engine may be dialled at addr. It refuses, with an
// [*AddrError], addresses that no engine has but an attacker may want: link-local
// (169.254.0.0/16 and fe80::/10), the metadata services of the large clouds,
// the unspecified address, multicast and broadcast, also when they are written as
// IPv4-mapped or NAT64 IPv6 addresses. Loopback and private addresses are
// allowed: fleets live there. It is pure and safe for concurrent use.
//
// A check of a name's answer can be outrun by the next answer; check what is
// dialled, with [DialControl].
func CheckAddr(addr netip.Addr) error { return checkAddr(addr, false) }

func checkAddr(addr netip.Addr, allowLinkLocal bool) error {
	kind := kindOf(addr)
	switch kind {
	case "":
		return nil
	case "link-local", "metadata":
		if allowLinkLocal {
			return nil
		}
	}
	return &AddrError{Addr: addr, Kind: kind}
}

// kindOf names the reason to refuse addr, "" when there is none.
func kindOf(addr netip.Addr) string {
	addr = addr.Unmap()
	switch {
	case !addr.IsValid():
		return "invalid"
	case addr.IsUnspecified():
		return "unspecified"
	case addr.IsMulticast():
		return "multicast"
	case addr.IsLinkLocalUnicast():
		return "link-local"
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "broadcast"
	}
	plain := addr.WithZone("")
	for _, p := range metadata {
		if p.Contains(plain) {
			return "metadata"
		}
	}
	if plain == netip.IPv6Loopback() {
		return ""
	}
	for _, p := range embedded {
		if p.Contains(plain) {
			b := plain.As16()
			return kindOf(netip.AddrFrom4([4]byte(b[12:])))
		}
	}
	return ""
}

// DialControl is a Control function for [net.Dialer] that refuses what
// [CheckAddr] refuses. It sees the address after resolution, so a name that
// changes its answer between check and dial does not get past it.
func DialControl(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("discovery: cannot check the dialled address: %w", err)
	}
	return CheckAddr(ap.Addr())
}
