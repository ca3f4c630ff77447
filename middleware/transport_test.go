package middleware

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
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

// A prompt that fits the buffer leaves with its header in one write, whoever
// dials; a caller's own size of the buffer is kept.
func TestHeaderAndPromptAreOneWrite(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // all is written before the answer
	}))
	defer s.Close()
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	writes := func(buffer int) int64 {
		conn := &countedConn{}
		base := &http.Transport{WriteBufferSize: buffer, DialContext: func(_ context.Context, network, address string) (c net.Conn, err error) {
			conn.Conn, err = net.Dial(network, address)
			return conn, err
		}}
		pool := NewTransport(TransportOptions{Base: base}).For(discovery.Endpoint{ID: "e", URL: u, Rank: discovery.NoRank})
		defer pool.(*http.Transport).CloseIdleConnections()
		req, err := http.NewRequest(http.MethodPost, s.URL, strings.NewReader(strings.Repeat("x", 12<<10)))
		require.NoError(t, err)
		resp, err := pool.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return conn.writes.Load()
	}
	require.EqualValues(t, 1, writes(0))
	require.Greater(t, writes(4<<10), int64(1))
	require.Equal(t, writeBuffer, NewTransport(TransportOptions{}).base.WriteBufferSize)
}

// countedConn counts the writes to a connection.
type countedConn struct {
	net.Conn
	writes atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}
