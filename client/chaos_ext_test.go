package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/middleware"
)

const (
	chaosEngines  = 8
	chaosCallers  = 64
	chaosRequests = 5000
	chaosPrompts  = 200
)

// A flappingDNS finds the endpoints of a fleet, when it works.
type flappingDNS struct {
	whole []discovery.Endpoint
	calm  atomic.Bool
	tally [4]atomic.Int64 // whole, part, empty, failed
}

func newFlappingDNS(t *testing.T, urls []string) *flappingDNS {
	d := new(flappingDNS)
	for _, u := range urls {
		e, err := discovery.ParseURL(u)
		require.NoError(t, err)
		d.whole = append(d.whole, e)
	}
	return d
}

func (d *flappingDNS) Resolve(context.Context) ([]discovery.Endpoint, error) {
	n := rand.IntN(10)
	if d.calm.Load() {
		n = 9
	}
	switch n {
	case 0:
		d.tally[3].Add(1)
		return nil, &net.DNSError{Err: "no such host", Name: "vllm", IsNotFound: true}
	case 1:
		d.tally[2].Add(1)
		return nil, nil
	case 2, 3:
		d.tally[1].Add(1)
		from := rand.IntN(len(d.whole))
		return append(append([]discovery.Endpoint(nil), d.whole[:from]...), d.whole[min(from+3, len(d.whole)):]...), nil
	}
	d.tally[0].Add(1)
	return append([]discovery.Endpoint(nil), d.whole...), nil
}

// A connCount counts the connections that are open.
type connCount struct{ open, made atomic.Int64 }

func (n *connCount) transport() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		n.open.Add(1)
		n.made.Add(1)
		return &countedConn{Conn: c, count: n}, nil
	}}
}

type countedConn struct {
	net.Conn
	count *connCount
	once  sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.count.open.Add(-1) })
	return c.Conn.Close()
}

func chaosRequest(prompt int) openai.ChatCompletionRequest {
	return openai.ChatCompletionRequest{Model: "sim-70b", MaxCompletionTokens: 12, Messages: []openai.ChatCompletionMessage{
		{Role: "system", Content: strings.Repeat("You answer at length. ", 20)},
		{Role: "user", Content: fmt.Sprintf("Question number %d, if you please.", prompt)}}}
}

// A result is what one call came to.
type result struct {
	stream   bool
	text     string
	engines  map[string]bool // that have spoken in the answer
	endpoint string
	err      error
}

func ask(ctx context.Context, c *client.Client, prompt int, stream bool) (r result) {
	r.stream, r.engines = stream, map[string]bool{}
	if !stream {
		resp, err := c.CreateChatCompletion(ctx, chaosRequest(prompt))
		if r.err = err; err == nil {
			r.text, r.engines[resp.SystemFingerprint] = resp.Choices[0].Message.Content, true
			r.endpoint = resp.Header().Get("X-Prefixwise-Endpoint")
		}
		return r
	}
	s, err := c.CreateChatCompletionStream(ctx, chaosRequest(prompt))
	if err != nil {
		r.err = err
		return r
	}
	defer s.Close()
	r.endpoint = s.Header().Get("X-Prefixwise-Endpoint")
	for {
		chunk, err := s.Recv()
		if err == io.EOF {
			return r
		}
		if err != nil {
			r.err = err
			return r
		}
		r.engines[chunk.SystemFingerprint] = true
		r.text += chunk.Choices[0].Delta.Content
	}
}

// typed tells whether an error is one that a caller can make something of.
func typed(err error) bool {
	return errors.As(err, new(*client.Error)) || errors.As(err, new(*openai.APIError)) || errors.As(err, new(*openai.RequestError))
}

// expectedAnswers asks an engine that nothing happens to.
func expectedAnswers(t *testing.T, cfg fleettest.Config) []string {
	calm := fleettest.New(1, cfg)
	defer calm.Close()
	c, err := client.New(client.WithEndpoints(calm.URLs()...), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
	require.NoError(t, err)
	defer c.Close()
	answers := make([]string, chaosPrompts)
	for i := range answers {
		r := ask(t.Context(), c, i, false)
		require.NoError(t, r.err)
		require.NotEmpty(t, r.text)
		answers[i] = r.text
	}
	return answers
}

// load sends n requests from many goroutines and hands each result to check.
func load(t *testing.T, c *client.Client, n int, sent *atomic.Int64, check func(prompt int, r result)) {
	var group sync.WaitGroup
	for range chaosCallers {
		group.Go(func() {
			for i := int(sent.Add(1)); i <= n; i = int(sent.Add(1)) {
				prompt := i % chaosPrompts
				check(prompt, ask(t.Context(), c, prompt, i%2 == 0))
			}
		})
	}
	group.Wait()
}

// Everything goes wrong at once, for as long as 5,000 requests take.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	cfg := fleettest.Config{TimeScale: 100, CacheTokens: 20_000}
	expected := expectedAnswers(t, cfg)
	before := goleak.IgnoreCurrent()
	fleet := fleettest.New(chaosEngines, cfg)
	dns := newFlappingDNS(t, fleet.URLs())
	var connections connCount
	var attempts, begun, spent atomic.Int64
	c, err := client.New(
		client.WithResolver(dns),
		client.WithResolveInterval(50*time.Millisecond),
		client.WithHealthChecks(100*time.Millisecond),
		client.WithTransport(connections.transport()),
		// Faults last for a quarter of a second here, not for minutes.
		client.WithEjection(&affinity.Ejection{Time: 100 * time.Millisecond, MaxTime: 500 * time.Millisecond}),
		client.WithTimeouts(client.Timeouts{Connect: time.Second, FirstByte: 2 * time.Second, Idle: 2 * time.Second, Stall: 500 * time.Millisecond, Total: 15 * time.Second}),
		client.WithObserver(&client.Trace{Picked: func(p middleware.Picked) {
			attempts.Add(1)
			if p.Attempt == 1 {
				begun.Add(1)
			}
		}, Retrying: func(r middleware.Retrying) {
			var e *client.Error
			if errors.As(r.Err, &e) && e.Phase == middleware.PhaseConnect {
				spent.Add(1)
			} else {
				spent.Add(5)
			}
		}}),
	)
	require.NoError(t, err)
	require.NoError(t, c.Ready(t.Context()))

	stop, trouble := make(chan struct{}), make(chan map[string]int)
	go func() { trouble <- makeTrouble(fleet, stop) }()
	var mu sync.Mutex
	ended, causes := map[string]int{}, map[string]int{}
	var sent atomic.Int64
	start := time.Now()
	load(t, c, chaosRequests, &sent, func(prompt int, r result) {
		what := "complete"
		var e *client.Error
		switch {
		case r.err == nil:
			if r.text != expected[prompt] {
				t.Errorf("an answer is not the expected one: %q, want %q", r.text, expected[prompt])
			}
		case errors.As(r.err, &e) && e.Delivered > 0:
			what = "cut, typed"
			if !strings.HasPrefix(expected[prompt], r.text) {
				t.Errorf("a broken answer is not the beginning of one: %q of %q", r.text, expected[prompt])
			}
			if e.Endpoint != r.endpoint {
				t.Errorf("the error names %q, the answer is from %q", e.Endpoint, r.endpoint)
			}
		case errors.As(r.err, &e):
			what = "failed, typed"
			mu.Lock()
			cause := e.Err
			for errors.Unwrap(cause) != nil {
				cause = errors.Unwrap(cause)
			}
			causes[fmt.Sprintf("%s: %.60s", e.Phase, cause)]++
			mu.Unlock()
		case typed(r.err):
			what = "refused"
		default:
			t.Errorf("not a typed error: %T %v", r.err, r.err)
		}
		if len(r.engines) > 1 {
			t.Errorf("one answer from several engines: %v", r.engines)
		}
		mu.Lock()
		ended[what]++
		mu.Unlock()
	})
	took := time.Since(start)
	close(stop)
	faults := <-trouble

	stats := c.Stats()
	ejections := uint64(0)
	for _, e := range stats.Endpoints {
		ejections += e.Ejections
	}
	// 500 tokens, five for a retry (one if there was no connection), and one
	// back for an answer that began well.
	budget := int64(500 + ended["complete"] + ended["cut, typed"])
	t.Logf("%d requests in %v (%.0f/s): %v", chaosRequests, took.Round(time.Millisecond), chaosRequests/took.Seconds(), ended)
	t.Logf("the calls that failed before an answer began: %v", causes)
	t.Logf("attempts: %d for %d calls; retries cost %d tokens of the %d that there were", attempts.Load(), begun.Load(), spent.Load(), budget)
	t.Logf("faults: %v; ejections: %d; connections made: %d", faults, ejections, connections.made.Load())
	t.Logf("DNS: %d whole, %d partial, %d empty, %d failed", dns.tally[0].Load(), dns.tally[1].Load(), dns.tally[2].Load(), dns.tally[3].Load())

	require.EqualValues(t, chaosRequests, stats.Calls, "each call is reported once")
	require.Eventually(t, func() bool {
		for _, e := range c.Stats().Endpoints {
			if e.InFlight != 0 {
				return false
			}
		}
		return true
	}, 5*time.Second, 10*time.Millisecond, "%+v", c.Stats().Endpoints)
	require.LessOrEqual(t, spent.Load(), budget, "attempts stay within the requests and the budget")
	require.Positive(t, ended["complete"])
	require.NoError(t, c.Close())
	fleet.Close()
	require.Eventually(t, func() bool { return connections.open.Load() == 0 }, 5*time.Second, 10*time.Millisecond, "connections are left")
	goleak.VerifyNone(t, before)
}

// makeTrouble does something to an engine every few milliseconds, until stop is
// closed; then it heals all.
func makeTrouble(fleet *fleettest.Fleet, stop chan struct{}) map[string]int {
	did := map[string]int{}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			for i := range fleet.Len() {
				fleet.SetFault(i, fleettest.Fault{})
			}
			return did
		case <-tick.C:
		}
		i := rand.IntN(fleet.Len())
		set := func(name string, fault fleettest.Fault) {
			did[name]++
			fleet.SetFault(i, fault)
		}
		times, after := 1+rand.IntN(20), rand.IntN(8)-1
		switch rand.IntN(12) {
		case 0:
			did["kill"]++
			fleet.Kill(i)
		case 1, 2, 3:
			did["restart"]++
			if err := fleet.Restart(i); err != nil {
				did["restart failed"]++
			}
		case 4:
			did["drain"]++
			fleet.Drain(i)
		case 5:
			did["abort"]++
			fleet.Abort(i)
		case 6:
			set("hang", fleettest.Fault{Hang: true})
		case 7:
			set("slow", fleettest.Fault{Slow: 10})
		case 8:
			set("cut", fleettest.Fault{Stream: fleettest.StreamCut, AfterTokens: after, Times: times})
		case 9:
			kind := fleettest.StreamError + fleettest.StreamFault(rand.IntN(4))
			set("bad stream", fleettest.Fault{Stream: kind, AfterTokens: after, Times: times})
		case 10:
			set("status", fleettest.Fault{Status: []int{500, 502, 503, 503}[rand.IntN(4)], RetryAfter: []string{"", "1"}[rand.IntN(2)], Times: times})
		case 11:
			set("unhealthy", fleettest.Fault{Unhealthy: true})
		}
	}
}

// One of eight engines dies under load: no plain request fails, and of the
// streams only those that were being delivered from there.
func TestOneOfEightIsKilled(t *testing.T) {
	cfg := fleettest.Config{TimeScale: 10}
	expected := expectedAnswers(t, cfg)
	fleet := fleettest.New(chaosEngines, cfg)
	defer fleet.Close()
	c, err := client.New(client.WithEndpoints(fleet.URLs()...))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Ready(t.Context()))
	const requests = 2000
	var sent, cut atomic.Int64
	var kill sync.Once
	victim := strings.TrimSuffix(fleet.URL(3), "/v1")
	load(t, c, requests, &sent, func(prompt int, r result) {
		if sent.Load() > requests/3 {
			kill.Do(func() { fleet.Kill(3) })
		}
		var e *client.Error
		switch {
		case r.err == nil:
			if r.text != expected[prompt] {
				t.Errorf("an answer is not the expected one: %q, want %q", r.text, expected[prompt])
			}
		case !r.stream:
			t.Errorf("a plain request failed: %v", r.err)
		case !errors.As(r.err, &e) || e.Delivered == 0 || e.Endpoint != victim:
			t.Errorf("a stream failed that was not being delivered from %s: %v", victim, r.err)
		default:
			cut.Add(1)
		}
	})
	require.LessOrEqual(t, cut.Load(), int64(chaosCallers))
	s := c.Stats()
	t.Logf("%d requests: %d streams were being delivered and are cut, nothing else failed; %d retries", requests, cut.Load(), s.Retries)
	t.Logf("half of the streams had their first content after %v, half of all calls their end after %v", s.FirstByte.P50, s.Total.P50)
}
