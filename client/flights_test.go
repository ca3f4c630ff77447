package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
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

// A harbour is a fleet of two such engines.
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

func (h *harbour) open(t *testing.T) {
	h.ports = map[string]*port{}
	for _, address := range []string{"10.0.0.1:8000", "10.0.0.2:8000"} {
		p := &port{conns: make(chan net.Conn), done: make(chan struct{})}
		h.ports[address] = p
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.Header().Set("Connection", "close")
				if _, hangs := p.state(); hangs {
					<-r.Context().Done()
				}
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			p.mu.Lock()
			p.asked++
			h.asked++ // the calls of these tests follow one another
			n := h.asked
			p.mu.Unlock()
			h.work(p, n, r)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}`)
		})}
		go func() { _ = s.Serve(p) }()
		t.Cleanup(func() { close(p.done); s.Close() })
	}
}

// An engine that is told to stop closes its port and leaves the connections of
// what it was working on open and silent. The health checks find the port
// closed, and what is silent there is given up after 30 s and sent elsewhere;
// not, though, when the port opens again before.
func TestSilentEngineThatStops(t *testing.T) {
	silent := func(r *http.Request) { <-r.Context().Done() }
	for name, tt := range map[string]struct {
		work     func(p *port, n int, r *http.Request)
		retries  uint64
		min, max time.Duration
	}{
		"closes its port": {func(p *port, n int, r *http.Request) {
			if n == 1 {
				p.set(true, false)
				silent(r)
			}
		}, 1, 30 * time.Second, 45 * time.Second},
		"hangs, then closes it": {func(p *port, n int, r *http.Request) {
			if n == 1 {
				p.set(false, true)
				time.AfterFunc(time.Minute, func() { p.set(true, true) })
				silent(r)
			}
		}, 1, 90 * time.Second, 110 * time.Second},
		"opens it again": {func(p *port, n int, r *http.Request) {
			p.set(true, false)
			time.AfterFunc(25*time.Second, func() { p.set(false, false) })
			<-time.After(5 * time.Minute)
		}, 0, 5 * time.Minute, 5 * time.Minute},
		"only hangs": {func(p *port, n int, r *http.Request) {
			p.set(false, true)
			<-time.After(5 * time.Minute)
		}, 0, 5 * time.Minute, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &harbour{work: tt.work}
				h.open(t)
				c, err := New(WithEndpoints("http://10.0.0.1:8000", "http://10.0.0.2:8000"),
					WithTransport(&http.Transport{DialContext: h.dial}), WithModelChecks(0), WithMetrics(0))
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, c.Ready(t.Context()))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				begin := time.Now()
				resp, err := c.CreateChatCompletion(ctx, openai.ChatCompletionRequest{Model: "m",
					Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "are you there?"}}})
				require.NoError(t, err)
				require.Equal(t, "yes", resp.Choices[0].Message.Content)
				require.WithinRange(t, time.Now(), begin.Add(tt.min), begin.Add(tt.max))
				stats := c.Stats()
				require.Equal(t, tt.retries, stats.Retries)
				for _, e := range stats.Endpoints {
					require.Zero(t, e.InFlight)
					require.LessOrEqual(t, e.Requests, uint64(1), "not sent to the same engine again")
				}
			})
		})
	}
}
