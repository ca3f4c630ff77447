package middleware

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/discovery"
)

// A metadata address is refused before it is dialled, whoever dials.
func TestMetadataAddressesAreNotDialled(t *testing.T) {
	own := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("dialled")
	}}
	for name, base := range map[string]http.RoundTripper{"ours": nil, "the caller's": own} {
		ep := discovery.Endpoint{ID: "m", URL: &url.URL{Scheme: "http", Host: "metadata.test"},
			Addr: netip.MustParseAddrPort("169.254.169.254:80"), Rank: discovery.NoRank}
		req, err := http.NewRequest(http.MethodGet, "http://metadata.test/", nil)
		require.NoError(t, err)
		_, err = NewTransport(TransportOptions{Base: base}).For(ep).RoundTrip(req)
		require.ErrorIs(t, err, discovery.ErrAddrRefused, name)
	}
}
