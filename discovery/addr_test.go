package discovery

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckAddr(t *testing.T) {
	for text, kind := range map[string]string{
		"10.0.0.1": "", "127.0.0.1": "", "::1": "", "192.168.1.1": "", "8.8.8.8": "", "fd00::1": "", "2001:db8::1": "",
		"100.100.100.199": "", "64:ff9b::a00:1": "", "::ffff:10.0.0.1": "",
		"169.254.169.254": "link-local", "169.254.0.1": "link-local", "169.254.170.2": "link-local",
		"::ffff:169.254.169.254": "link-local", "64:ff9b::a9fe:a9fe": "link-local", "::a9fe:a9fe": "link-local",
		"fe80::1": "link-local", "fe80::1%eth0": "link-local", "febf::1": "link-local",
		"100.100.100.200": "metadata", "168.63.129.16": "metadata", "fd00:ec2::254": "metadata", "fd20:ce::254": "metadata",
		"0.0.0.0": "unspecified", "::": "unspecified", "::ffff:0.0.0.0": "unspecified",
		"224.0.0.1": "multicast", "ff02::1": "multicast", "255.255.255.255": "broadcast",
	} {
		addr := netip.MustParseAddr(text)
		err := CheckAddr(addr)
		if kind == "" {
			assert.NoError(t, err, text)
			continue
		}
		var refused *AddrError
		require.ErrorAs(t, err, &refused, text)
		assert.Equal(t, kind, refused.Kind, text)
		assert.ErrorIs(t, err, ErrAddrRefused)
		if kind == "link-local" || kind == "metadata" {
			assert.ErrorContains(t, err, "AllowLinkLocal (client.WithLinkLocal)", text)
			assert.NoError(t, checkAddr(addr, true), text)
		} else {
			assert.Error(t, checkAddr(addr, true), text)
		}
	}
	assert.ErrorIs(t, CheckAddr(netip.Addr{}), ErrAddrRefused)
}

func TestDialControlStopsTheDial(t *testing.T) {
	d := net.Dialer{Control: DialControl}
	for _, address := range []string{"169.254.169.254:80", "[fe80::1%lo]:80", "[::ffff:169.254.169.254]:80"} {
		_, err := d.DialContext(t.Context(), "tcp", address)
		assert.ErrorIs(t, err, ErrAddrRefused, address)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	c.Close()
	assert.Error(t, DialControl("unix", "/run/x", nil), "what cannot be checked is refused")
}
