// Package chatstest tests the example of an SDK: that it works with prefix
// routing, and that what goes wrong reaches its user as that SDK's users expect.
package chatstest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/examples/internal/chats"
	"github.com/prefixwise/prefixwise/middleware"
)

const (
	model = "sim-70b" // what a simulated fleet serves
	// An SDK may close a stream on a goroutine of its own; this is how long
	// that may take before the test fails.
	patience, glance = 10 * time.Second, 2 * time.Millisecond
)

// SDK is an example and what is known of its SDK.
type SDK struct {
	Connect chats.Connect
	API     canon.API

	// Refused checks the error for an answer of this status.
	Refused func(t *testing.T, status int, err error)

	// Hidden says that the SDK replaces the errors of its transport, so that a
	// *client.Error does not reach its user.
	Hidden bool
}

// Run tests all of it.
func Run(t *testing.T, s SDK) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	t.Run("conversations", s.conversations)
	t.Run("as it came", s.asItCame)
	t.Run("refused", s.refused)
	t.Run("recovers", s.recovers)
	t.Run("nobody there", s.nobodyThere)
	t.Run("stream is cut", s.cut)
	t.Run("engine gives up", s.aborted)
	t.Run("caller leaves", s.leaves)
	t.Run("keys", s.keys)
}

// Every request was understood, went where its conversation lives, and nearly
// everything that could be in a cache was.
func (s SDK) conversations(t *testing.T) {
	var mu sync.Mutex
	var done []middleware.Done
	result, err := chats.Run(t.Context(), "test", "", s.Connect, client.WithObserver(&client.Trace{Done: func(d middleware.Done) {
		mu.Lock()
		defer mu.Unlock()
		if d.API != canon.Unknown { // the list of models is asked for too
			done = append(done, d)
		}
	}}))
	require.NoError(t, err)
	t.Log(result)
	require.NoError(t, result.Check())
	require.LessOrEqual(t, result.Ratio(), 1.01)
	require.Equal(t, chats.Requests, result.Requests)
	require.Len(t, done, chats.Requests)
	streamed := 0
	for _, d := range done {
		require.NoError(t, d.Err)
		require.Equal(t, s.API, d.API)
		require.Equal(t, model, d.Model, "the body was not understood")
		require.Equal(t, string(client.Affinity), d.Strategy)
		require.Positive(t, d.PromptTokens)
		require.GreaterOrEqual(t, d.CachedTokens, 0, "the engine's word on its cache was not read")
		require.LessOrEqual(t, d.CachedTokens, d.PromptTokens)
		if d.Stream {
			streamed++
		}
	}
	require.Equal(t, chats.Requests/2, streamed)
}

// Without Prefixwise the tools, which come in another order each time, leave
// nothing that is cached: the example can fail.
func (s SDK) asItCame(t *testing.T) {
	t.Setenv("PREFIXWISE_DISABLED", "1")
	result, err := chats.Run(t.Context(), "test", "", s.Connect)
	require.NoError(t, err)
	require.Less(t, result.Ratio(), 0.5)
	require.ErrorContains(t, result.Check(), "infinite cache")
}

// bench is a fleet of two, a client for it, and the SDK over that.
type bench struct {
	fleet  *fleettest.Fleet
	client *client.Client
	ask    chats.Ask
}

func (s SDK) bench(t *testing.T, model string, cfg fleettest.Config, options ...client.Option) bench {
	t.Helper()
	cfg.TimeScale = 20
	fleet := fleettest.New(2, cfg)
	t.Cleanup(fleet.Close)
	// Nothing is set aside, and every error is the answer to this request.
	c, err := client.New(append(options, client.WithEndpoints(fleet.URLs()...), client.WithEjection(nil), client.WithModelChecks(0))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	ask, err := s.Connect(c, model)
	require.NoError(t, err)
	return bench{fleet, c, ask}
}

func (b bench) fault(f fleettest.Fault) {
	for i := range b.fleet.Len() {
		b.fleet.SetFault(i, f)
	}
}

// idle waits until nothing is in flight.
func (b bench) idle(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		n := 0
		for _, e := range b.client.Stats().Endpoints {
			n += e.InFlight
		}
		return n == 0
	}, patience, glance, "requests are still in flight")
}

// each runs a test with plain answers and with streams.
func each(t *testing.T, test func(t *testing.T, piece func(string) error)) {
	t.Run("plain", func(t *testing.T) { test(t, nil) })
	t.Run("streamed", func(t *testing.T) { test(t, func(string) error { return nil }) })
}

// An error response reaches the user as the SDK's own error, after as many
// attempts as it is worth and no more: the SDK does not start anew.
func (s SDK) refused(t *testing.T) {
	for _, tt := range []struct {
		name, model string
		fault       fleettest.Fault
		status      int
		retries     uint64
	}{
		{name: "no such model", model: "nobody", status: http.StatusNotFound},
		{name: "too many", model: model, fault: fleettest.Fault{Status: http.StatusTooManyRequests}, status: http.StatusTooManyRequests, retries: 1},
		{name: "broken", model: model, fault: fleettest.Fault{Status: http.StatusInternalServerError}, status: http.StatusInternalServerError, retries: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, piece func(string) error) {
				b := s.bench(t, tt.model, fleettest.Config{}, client.WithRetries(1))
				b.fault(tt.fault)
				_, err := b.ask(t.Context(), chats.Sample(), piece)
				require.Error(t, err)
				s.Refused(t, tt.status, err)
				stats := b.client.Stats()
				require.EqualValues(t, 1, stats.Calls, "the SDK has asked again: %v", err)
				require.EqualValues(t, 1, stats.Refused)
				require.Equal(t, tt.retries, stats.Retries)
				b.idle(t)
			})
		})
	}
}

// Two instances fail once each; the user does not notice.
func (s SDK) recovers(t *testing.T) {
	each(t, func(t *testing.T, piece func(string) error) {
		b := s.bench(t, model, fleettest.Config{})
		b.fault(fleettest.Fault{Status: http.StatusInternalServerError, Times: 1})
		answer, err := b.ask(t.Context(), chats.Sample(), piece)
		require.NoError(t, err)
		require.NotEmpty(t, answer)
		stats := b.client.Stats()
		require.EqualValues(t, 1, stats.Calls)
		require.EqualValues(t, 2, stats.Retries)
		b.idle(t)
	})
}

func (s SDK) nobodyThere(t *testing.T) {
	each(t, func(t *testing.T, piece func(string) error) {
		b := s.bench(t, model, fleettest.Config{}, client.WithRetries(1), client.WithHealthChecks(0))
		b.fleet.Close()
		_, err := b.ask(t.Context(), chats.Sample(), piece)
		s.ours(t, err)
		stats := b.client.Stats()
		require.EqualValues(t, 1, stats.Calls, "the SDK has asked again")
		require.EqualValues(t, 1, stats.Retries)
		b.idle(t)
	})
}

// ours checks that an error is the one that Prefixwise has found.
func (s SDK) ours(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	var failed *client.Error
	if !s.Hidden {
		require.ErrorAs(t, err, &failed)
	}
}

// A stream that breaks off is an error, not a short answer.
func (s SDK) cut(t *testing.T) {
	b := s.bench(t, model, fleettest.Config{})
	b.fault(fleettest.Fault{Stream: fleettest.StreamCut, AfterTokens: 5})
	pieces := 0
	_, err := b.ask(t.Context(), chats.Sample(), func(string) error {
		pieces++
		return nil
	})
	require.Error(t, err)
	var failed *client.Error
	require.ErrorAs(t, err, &failed) // a failure to read is shown even where one to send is not
	require.Positive(t, pieces)
	require.EqualValues(t, 1, b.client.Stats().Calls, "the SDK has asked again")
	b.idle(t)
}

// So is one that the engine has given up; without content yet, the other
// instance answers.
func (s SDK) aborted(t *testing.T) {
	b := s.bench(t, model, fleettest.Config{})
	b.fault(fleettest.Fault{Stream: fleettest.StreamAbort, AfterTokens: 5})
	_, err := b.ask(t.Context(), chats.Sample(), func(string) error { return nil })
	var failed *client.Error
	require.ErrorAs(t, err, &failed)
	b.idle(t)
	each(t, func(t *testing.T, piece func(string) error) {
		b := s.bench(t, model, fleettest.Config{})
		b.fault(fleettest.Fault{Stream: fleettest.StreamAbort, Times: 1})
		answer, err := b.ask(t.Context(), chats.Sample(), piece)
		require.NoError(t, err)
		require.NotEmpty(t, answer)
		require.EqualValues(t, 2, b.client.Stats().Retries)
		b.idle(t)
	})
}

// A user who leaves in the middle of a stream leaves nothing behind.
func (s SDK) leaves(t *testing.T) {
	enough := errors.New("enough")
	t.Run("returns", func(t *testing.T) {
		b := s.bench(t, model, fleettest.Config{})
		_, err := b.ask(t.Context(), chats.Sample(), func(string) error { return enough })
		require.ErrorContains(t, err, "enough")
		b.idle(t)
	})
	t.Run("cancels", func(t *testing.T) {
		b := s.bench(t, model, fleettest.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// What it returns is the SDK's affair: langchaingo gives what it has so
		// far, and no error.
		_, _ = b.ask(ctx, chats.Sample(), func(string) error {
			cancel()
			return nil
		})
		b.idle(t)
		// The watch on the context may be what counts it, in a moment.
		require.Eventually(t, func() bool { return b.client.Stats().Canceled == 1 }, 10*time.Second, time.Millisecond)
	})
}

// The fleet's key replaces whatever the SDK sends.
func (s SDK) keys(t *testing.T) {
	each(t, func(t *testing.T, piece func(string) error) {
		b := s.bench(t, model, fleettest.Config{APIKey: "secret"}, client.WithAPIKey("secret"))
		_, err := b.ask(t.Context(), chats.Sample(), piece)
		require.NoError(t, err)
	})
	b := s.bench(t, model, fleettest.Config{APIKey: "secret"}, client.WithAPIKey("wrong"))
	_, err := b.ask(t.Context(), chats.Sample(), nil)
	// Which error it is depends on the SDK: vLLM's {"error": "Unauthorized"} is
	// not in the form of OpenAI's errors, and not all can read it.
	require.Error(t, err)
}
