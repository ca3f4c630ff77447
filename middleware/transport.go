package middleware

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prefixwise/prefixwise/discovery"
)

// TransportOptions are the settings of [NewTransport]. The zero value works.
type TransportOptions struct {
	// Base is what the endpoints' transports are made from. An
	// *http.Transport is cloned for each endpoint, with its dialer pinned to
	// the endpoint's address; its proxy, TLS and limits are kept. Any other
	// http.RoundTripper serves all endpoints as it is. Nil means a transport
	// with the defaults below.
	Base http.RoundTripper
	// TLS is the configuration for https endpoints: a private CA, client
	// certificates. It is used when Base is nil.
	TLS *tls.Config
	// ConnectTimeout bounds dialling and, apart from it, the TLS handshake.
	// Zero means 3 s; a negative value means no limit of ours.
	ConnectTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. Zero means 4 s:
	// uvicorn, and so vLLM, closes one after 5 s, and a request that meets
	// that moment fails.
	IdleTimeout time.Duration
	// MaxIdle is how many unused connections are kept for each endpoint. Zero
	// means 256, which is vLLM's default for max-num-seqs; with net/http's
	// own 2, sixteen parallel callers opened 142 connections for 160 requests.
	MaxIdle int
	// Proxy is as in http.Transport. Nil means none, not even the one of the
	// environment: endpoints are inside the cluster.
	Proxy func(*http.Request) (*url.URL, error)
	// AllowLinkLocal permits addresses that metadata services use; see
	// discovery.CheckAddr.
	AllowLinkLocal bool
}

const (
	// maxHeader bounds a response's header; net/http's own limit is 10 MiB.
	maxHeader = 1 << 20
	// writeBuffer is what a connection holds back until it is written at once.
	// With net/http's 4 KiB a prompt of 4 KB is two writes, each of which wakes
	// the engine; with this, header and prompt are one up to 16 KB, which is
	// 5 % of a call on loopback. More gains nothing, and idle connections keep
	// it.
	writeBuffer = 16 << 10
)

// Transport sends a request on the connection pool of the endpoint that
// [Route] picked. Each endpoint has a transport of its own, so that closing
// the connections of one that left does not touch those of the others. It is
// safe for concurrent use.
type Transport struct {
	options TransportOptions
	base    *http.Transport   // nil when fixed is used
	fixed   http.RoundTripper // a Base that cannot be cloned
	pools   sync.Map          // poolKey → *http.Transport
}

// poolKey is the identity and the address: an endpoint that returns with
// another address gets another pool.
type poolKey struct {
	id   string
	addr netip.AddrPort
}

// NewTransport returns a Transport.
func NewTransport(o TransportOptions) *Transport {
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 3 * time.Second
	}
	o.ConnectTimeout = max(o.ConnectTimeout, 0) // for net and net/http, 0 means none
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 4 * time.Second
	}
	if o.MaxIdle <= 0 {
		o.MaxIdle = 256
	}
	if base, ok := o.Base.(*http.Transport); ok && base == nil {
		o.Base = nil
	}
	t := &Transport{options: o}
	switch base := o.Base.(type) {
	case nil:
		t.base = &http.Transport{
			Proxy:                  o.Proxy,
			TLSClientConfig:        o.TLS,
			TLSHandshakeTimeout:    o.ConnectTimeout,
			DisableCompression:     true, // a compressed stream would be delayed
			MaxIdleConnsPerHost:    o.MaxIdle,
			IdleConnTimeout:        o.IdleTimeout,
			MaxResponseHeaderBytes: maxHeader,
			WriteBufferSize:        writeBuffer,
		}
	case *http.Transport:
		t.base = base.Clone()
		if d := t.base.IdleConnTimeout; d == 0 || d == 90*time.Second {
			// Not set, or copied from http.DefaultTransport.
			t.base.IdleConnTimeout = o.IdleTimeout
		}
		if t.base.MaxIdleConnsPerHost == 0 {
			t.base.MaxIdleConnsPerHost, t.base.MaxIdleConns = o.MaxIdle, 0
		}
		if t.base.MaxResponseHeaderBytes == 0 {
			t.base.MaxResponseHeaderBytes = maxHeader
		}
		if t.base.WriteBufferSize == 0 {
			t.base.WriteBufferSize = writeBuffer
		}
	default:
		t.fixed = base
	}
	return t
}

// RoundTrip sends req to the endpoint that [Route] picked, or where its URL
// points if that is not above.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var ep discovery.Endpoint
	if c, ok := req.Context().Value(callKey{}).(*call); ok && c.flight != nil {
		ep = c.flight.endpoint
	}
	return t.For(ep).RoundTrip(req)
}

// For returns the transport of one endpoint.
func (t *Transport) For(ep discovery.Endpoint) http.RoundTripper {
	if t.fixed != nil {
		return roundTripperFunc(func(req *http.Request) (*http.Response, error) { return t.sendFixed(req, ep) })
	}
	key := poolKey{ep.ID, ep.Addr}
	if p, ok := t.pools.Load(key); ok {
		return p.(*http.Transport)
	}
	p, _ := t.pools.LoadOrStore(key, t.newPool(ep))
	return p.(*http.Transport)
}

// sendFixed sends req by a transport whose dialer cannot be pinned. The address
// goes into the URL then, which TLS would take for the server's name.
func (t *Transport) sendFixed(req *http.Request, ep discovery.Endpoint) (*http.Response, error) {
	if !ep.Addr.IsValid() {
		return t.fixed.RoundTrip(req)
	}
	if req.URL.Scheme == "https" {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, errors.New("https to an address that DNS gave needs an *http.Transport as the base transport; pass one, or none")
	}
	out := req.WithContext(req.Context())
	u := *req.URL
	u.Host = ep.Addr.String()
	if out.Host == "" {
		out.Host = req.URL.Host
	}
	out.URL = &u
	return t.fixed.RoundTrip(out)
}

func (t *Transport) newPool(ep discovery.Endpoint) *http.Transport {
	p := t.base.Clone()
	p.DialContext = t.dialer(p, ep)
	if ep.URL != nil && ep.URL.Scheme == "https" {
		if p.TLSClientConfig == nil {
			p.TLSClientConfig = &tls.Config{}
		}
		if p.TLSClientConfig.ServerName == "" {
			// The name in a certificate has no trailing dot.
			p.TLSClientConfig.ServerName = strings.TrimSuffix(ep.URL.Hostname(), ".")
		}
	}
	return p
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns what makes the connections to ep. The URL keeps the host name,
// for TLS and the Host header; only the dialled address is the one that was
// resolved.
func (t *Transport) dialer(p *http.Transport, ep discovery.Endpoint) dialFunc {
	dial, own := p.DialContext, false
	if dial == nil {
		d := &net.Dialer{Timeout: t.options.ConnectTimeout, KeepAlive: 15 * time.Second}
		if !t.options.AllowLinkLocal {
			d.Control = discovery.DialControl
		}
		dial, own = d.DialContext, true
	}
	var name, addr string
	if ep.Addr.IsValid() {
		name, addr = hostPort(ep.URL), ep.Addr.String()
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		// With a proxy, what is dialled may be the proxy.
		if addr != "" && (p.Proxy == nil || strings.EqualFold(address, name)) {
			address = addr
		}
		var conn net.Conn
		var err error
		if own {
			conn, err = dial(ctx, network, address)
		} else {
			conn, err = t.dialWith(ctx, dial, network, address)
		}
		if err != nil {
			return nil, connectError{err}
		}
		return conn, nil
	}
}

// dialWith dials with a function of the caller's, which knows neither our time
// limit nor the addresses that are refused.
func (t *Transport) dialWith(ctx context.Context, dial dialFunc, network, address string) (net.Conn, error) {
	if ap, err := netip.ParseAddrPort(address); err == nil && !t.options.AllowLinkLocal {
		if err := discovery.CheckAddr(ap.Addr()); err != nil {
			return nil, err
		}
	}
	if t.options.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.options.ConnectTimeout)
		defer cancel()
	}
	conn, err := dial(ctx, network, address)
	if err != nil || t.options.AllowLinkLocal {
		return conn, err
	}
	// A name has been resolved by the caller's function. Nothing has been
	// written yet.
	if peer, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		if err := discovery.CheckAddr(peer.AddrPort().Addr()); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// hostPort is the address that net/http dials for u.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Keep closes the unused connections of every endpoint that is not in eps and
// forgets its pool. Requests that are under way there are not disturbed.
func (t *Transport) Keep(eps []discovery.Endpoint) {
	keep := make(map[poolKey]bool, len(eps))
	for _, ep := range eps {
		keep[poolKey{ep.ID, ep.Addr}] = true
	}
	t.pools.Range(func(key, p any) bool {
		if k := key.(poolKey); k.id != "" && !keep[k] {
			t.pools.Delete(key)
			p.(*http.Transport).CloseIdleConnections()
		}
		return true
	})
}

// CloseIdleConnections closes the unused connections of all endpoints.
func (t *Transport) CloseIdleConnections() {
	t.pools.Range(func(_, p any) bool {
		p.(*http.Transport).CloseIdleConnections()
		return true
	})
	if c, ok := t.fixed.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
