package client

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
)

// A port is one engine's: real HTTP over connections in memory, so that time
// can be virtual.
type port struct {
	conns chan net.Conn
	done  chan struct{}

	mu     sync.Mutex
	closed bool // takes no connection; those that are there stay open
	hangs  bool // takes connections, and does not answer for its health
	asked  int  // requests to generate
}

func (p *port) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *port) Close() error   { return nil }
func (p *port) Addr() net.Addr { return &net.TCPAddr{} }

func (p *port) set(closed, hangs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.hangs = closed, hangs
}

func (p *port) state() (closed, hangs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed, p.hangs
}

// A harbour is a fleet of such engines.
type harbour struct {
	ports map[string]*port
	work  func(p *port, n int, r *http.Request) // n counts a fleet's requests from 1
	asked int
}

func (h *harbour) dial(ctx context.Context, _, address string) (net.Conn, error) {
	p := h.ports[address]
	if closed, _ := p.state(); closed {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// add lets a server answer at an address until the end of the test.
func (h *harbour) add(t *testing.T, address string, s *http.Server) *port {
	p := &port{conns: make(chan net.Conn), done: make(chan struct{})}
	if h.ports == nil {
		h.ports = map[string]*port{}
	}
	h.ports[address] = p
	go func() { _ = s.Serve(p) }()
	t.Cleanup(func() { close(p.done); s.Close() })
	return p
}
