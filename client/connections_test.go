package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

// Streams from many callers need as many connections as are in use at once, and
// one caller's need one.
func TestRequirement10_StreamsReuseConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 64
		var apart atomic.Bool
		var together sync.WaitGroup // for the streams that wait for one another
		h := &harbour{}
		h.add(t, "10.0.0.1:8000", &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if !apart.Load() {
				together.Done()
				together.Wait()
			}
			w.Header().Set("Content-Type", "text/event-stream")
			// The end comes by itself, when go-openai may have stopped reading.
			for _, part := range []string{`data: {"choices":[{"index":0,"delta":`, `{"content":"hello"},"finish_reason":"stop"}]}` + "\n\ndata: [DO", "NE]\n\n", "\n"} {
				fmt.Fprint(w, part)
				w.(http.Flusher).Flush()
			}
		})})
		conns := &tally{harbour: h}
		c, err := New(WithEndpoints("http://10.0.0.1:8000"), WithTransport(conns.transport()),
			WithHealthChecks(0), WithModelChecks(0), WithMetrics(0))
		require.NoError(t, err)
		defer c.Close()
		stream := func(ctx context.Context) error {
			s, err := c.CreateChatCompletionStream(ctx, openai.ChatCompletionRequest{Model: "m",
				Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "x"}}})
			if err != nil {
				return err
			}
			defer s.Close()
			for err == nil {
				_, err = s.Recv()
			}
			if err != io.EOF {
				return err
			}
			return nil
		}
		all := func(rounds int) {
			var g errgroup.Group
			for range callers {
				g.Go(func() error {
					for range rounds {
						if err := stream(t.Context()); err != nil {
							return err
						}
					}
					return nil
				})
			}
			require.NoError(t, g.Wait())
		}
		apart.Store(true)
		for range 200 {
			require.NoError(t, stream(t.Context()))
		}
		requireConns := func(want int, msg string) {
			t.Helper()
			made, open := conns.of("10.0.0.1:8000")
			require.Equal(t, want, made, msg)
			require.Equal(t, want, open, msg)
		}
		requireConns(1, "one after the other")
		apart.Store(false)
		together.Add(callers)
		all(1)
		requireConns(callers, "each has one")
		apart.Store(true)
		all(10)
		requireConns(callers, "and they are enough")
	})
}

// A tally counts the connections to each address, in all and those open now.
type tally struct {
	harbour *harbour
	mu      sync.Mutex
	made    map[string]int
	open    map[string]int
}

func (c *tally) count(address string, made, open int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[address] += made
	c.open[address] += open
}

func (c *tally) of(address string) (made, open int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made[address], c.open[address]
}

func (c *tally) transport() *http.Transport {
	c.made, c.open = map[string]int{}, map[string]int{}
	return &http.Transport{IdleConnTimeout: time.Hour, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := c.harbour.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.count(address, 1, 1)
		return &talliedConn{Conn: conn, closed: func() { c.count(address, 0, -1) }}, nil
	}}
}

type talliedConn struct {
	net.Conn
	once   sync.Once
	closed func()
}

func (c *talliedConn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}

// What happens to one endpoint leaves the connections to another alone.
func TestRequirement10_OneEndpointFailsOrLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const a, b = "10.0.0.1:8000", "10.0.0.2:8000"
		h := &harbour{work: func(*port, int, *http.Request) {}}
		h.open(t)
		dns, conns := &scripted{names: []string{a, b}}, &tally{harbour: h}
		c, err := New(WithResolver(dns), WithTransport(conns.transport()), WithResolveInterval(time.Second),
			WithHealthChecks(0), WithModelChecks(0), WithMetrics(0), WithStrategy(RoundRobin))
		require.NoError(t, err)
		defer c.Close()
		ask := func() {
			for range 10 {
				_, err := c.CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{Model: "m",
					Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "x"}}})
				require.NoError(t, err)
			}
		}
		requireConns := func(address string, made, open int) {
			t.Helper()
			gotMade, gotOpen := conns.of(address)
			require.Equal(t, made, gotMade)
			require.Equal(t, open, gotOpen)
		}
		ask()
		requireConns(a, 1, 1)
		requireConns(b, 1, 1)
		dns.change(func() { dns.names = []string{b} })
		<-time.After(5 * time.Second) // the bubble's clock
		require.Len(t, c.Stats().Endpoints, 1)
		requireConns(a, 1, 0)
		dns.change(func() { dns.names = []string{a, b} })
		h.ports[a].set(true, false)
		<-time.After(5 * time.Second)
		require.Len(t, c.Stats().Endpoints, 2)
		ask()
		require.NotZero(t, c.Stats().Retries)
		requireConns(a, 1, 0)
		requireConns(b, 1, 1)
	})
}

// A name is an endpoint that is always found at the same address.
type name struct {
	endpoint discovery.Endpoint
	asked    atomic.Int64
}

func (n *name) Resolve(context.Context) ([]discovery.Endpoint, error) {
	n.asked.Add(1)
	return []discovery.Endpoint{n.endpoint}, nil
}

// Connections that fail have DNS asked at once, but not once for each.
func TestRequirement09_RefusedConnectionsAskDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &harbour{work: func(*port, int, *http.Request) {}}
		h.open(t)
		e, err := discovery.ParseURL("http://10.0.0.1:8000")
		require.NoError(t, err)
		dns := &name{endpoint: e}
		c, err := New(WithResolver(dns), WithTransport(&http.Transport{DialContext: h.dial, DisableKeepAlives: true}),
			WithResolveInterval(time.Hour), WithHealthChecks(0), WithModelChecks(0), WithMetrics(0), WithRetries(0))
		require.NoError(t, err)
		defer c.Close()
		ask := func() error {
			_, err := c.CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{Model: "m",
				Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "hello"}}})
			return err
		}
		require.NoError(t, ask())
		<-time.After(time.Minute) // the bubble's clock
		require.EqualValues(t, 1, dns.asked.Load())
		h.ports["10.0.0.1:8000"].set(true, false)
		for range 20 {
			require.Error(t, ask())
		}
		synctest.Wait()
		require.EqualValues(t, 2, dns.asked.Load(), "twenty failures to connect, one more question")
	})
}

// An engine that drops unused connections sooner than the client does is found
// by leaving one unused.
func TestCheckMeasuresIdleTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &harbour{}
		for address, idle := range map[string]time.Duration{"10.0.0.1:8000": 50 * time.Millisecond, "10.0.0.2:8000": 0} {
			engine, err := vllmsim.NewServer(vllmsim.Config{})
			require.NoError(t, err)
			t.Cleanup(engine.Close)
			h.add(t, address, &http.Server{Handler: engine, IdleTimeout: idle})
		}
		c, err := New(WithEndpoints("http://10.0.0.1:8000", "http://10.0.0.2:8000"),
			WithTransport(&http.Transport{DialContext: h.dial, IdleConnTimeout: 800 * time.Millisecond}),
			WithHealthChecks(0), WithModelChecks(0), WithMetrics(0))
		require.NoError(t, err)
		defer c.Close()
		found := c.Check(t.Context(), CheckIdle())
		require.Len(t, found, 1, found.String())
		require.Equal(t, IdleTimeoutShort, found[0].Code)
		require.Equal(t, "http://10.0.0.1:8000", found[0].Endpoint)
		require.Contains(t, found[0].Message, "before 800ms")
	})
}
