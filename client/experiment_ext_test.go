package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/middleware"
)

// converse sends the turns of n conversations, all first turns, then all second
// ones. The conversations share a system prompt and have 1 to 4 turns.
func converse(t *testing.T, c *client.Client, n int) {
	system := strings.Repeat("You answer questions about the harbour. ", 60)
	for turn := range 4 {
		for i := range n {
			if turn > i%4 {
				continue
			}
			messages := []openai.ChatCompletionMessage{{Role: "system", Content: system}}
			for k := range turn + 1 {
				if k > 0 {
					messages = append(messages, openai.ChatCompletionMessage{Role: "assistant", Content: "Yes."})
				}
				messages = append(messages, openai.ChatCompletionMessage{Role: "user",
					Content: fmt.Sprintf("%d.%d: ", i, k) + strings.Repeat("and the ships, how many? ", 40+i%7)})
			}
			stream, err := c.CreateChatCompletionStream(t.Context(), openai.ChatCompletionRequest{
				Model: "sim-70b", Messages: messages, MaxCompletionTokens: 2})
			require.NoError(t, err)
			for err == nil {
				_, err = stream.Recv()
			}
			require.ErrorIs(t, err, io.EOF)
			require.NoError(t, stream.Close())
		}
	}
}

func experimentClient(t *testing.T, opts ...client.Option) *client.Client {
	fleet := fleettest.New(4, fleettest.Config{TimeScale: 500})
	t.Cleanup(fleet.Close)
	// Without gauges, since engines this fast outrun what is read once a second.
	c, err := client.New(append([]client.Option{client.WithEndpoints(fleet.URLs()...), client.WithMetrics(0)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.Ready(t.Context()))
	return c
}

// An experiment must find what two fleets, one for each strategy, would show.
// Round robin is the control since it sends the same traffic the same way in
// every run.
func TestExperimentAgreesWithWholeRuns(t *testing.T) {
	const conversations = 240
	rate := func(s client.Strategy) float64 {
		c := experimentClient(t, client.WithStrategy(s))
		converse(t, c, conversations)
		require.Nil(t, c.Experiment())
		return c.Stats().HitRate()
	}
	difference := rate(client.Affinity) - rate(client.RoundRobin)
	require.Greater(t, difference, .1, "the traffic must tell the strategies apart")

	c := experimentClient(t, client.WithExperiment(client.RoundRobin, .5))
	converse(t, c, conversations)
	e := c.Experiment()
	t.Logf("whole runs: %+.1f points\n%s", 100*difference, e)
	require.True(t, e.Enough())
	require.Equal(t, conversations, e.Treatment.Conversations+e.Control.Conversations)
	require.EqualValues(t, c.Stats().Calls, e.Treatment.Calls+e.Control.Calls)
	require.InDelta(t, conversations/2, e.Control.Conversations, 40)
	require.True(t, e.HitRate.Clear())
	require.LessOrEqual(t, e.HitRate.Low, difference)
	require.GreaterOrEqual(t, e.HitRate.High, difference)
	require.Less(t, e.HitRate.High-e.HitRate.Low, .12, "an interval that says something")
	require.Positive(t, e.Treatment.FirstToken.Value)
	require.Positive(t, e.Control.Throughput.Value)
	require.Contains(t, e.String(), "95 % intervals")

	text, err := json.Marshal(e)
	require.NoError(t, err)
	require.Contains(t, string(text), `"hit_rate":{"value":`)

	require.NoError(t, c.SetStrategy(client.BoundedLoad))
	e = c.Experiment()
	require.Zero(t, e.Treatment.Calls+e.Control.Calls, "a new comparison")
	require.False(t, e.Enough())
	require.Contains(t, e.String(), "unknown")
	require.Contains(t, e.String(), "too few")
}

func TestConversationStaysInItsArm(t *testing.T) {
	c := experimentClient(t, client.WithExperiment(client.Random, .3))
	arm := map[string]string{}
	ask := func(ctx context.Context, text string) (strategy string) {
		ctx = client.WithTrace(ctx, &client.Trace{Done: func(d middleware.Done) { strategy = d.Strategy }})
		_, err := c.CreateChatCompletion(ctx, openai.ChatCompletionRequest{Model: "sim-70b", MaxCompletionTokens: 1,
			Messages: []openai.ChatCompletionMessage{{Role: "user", Content: text}}})
		require.NoError(t, err)
		return strategy
	}
	random := 0
	for i := range 100 {
		session := fmt.Sprint("session ", i)
		ctx := client.WithSession(t.Context(), session)
		arm[session] = ask(ctx, "hello")
		require.Equal(t, arm[session], ask(ctx, "and then?"), "another text of one session")
		if arm[session] == "random" {
			random++
		}
	}
	require.InDelta(t, 30, random, 18)
	// Another client, in another process, has the same arms.
	c = experimentClient(t, client.WithExperiment(client.Random, .3))
	for session, strategy := range arm {
		require.Equal(t, strategy, ask(client.WithSession(t.Context(), session), "hello"))
	}
}

func TestExperimentCountsFailures(t *testing.T) {
	fleet := fleettest.New(1, fleettest.Config{})
	defer fleet.Close()
	fleet.SetFault(0, fleettest.Fault{Status: 400})
	c, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithExperiment(client.Random, .5))
	require.NoError(t, err)
	defer c.Close()
	for i := range 20 {
		_, err := c.CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{Model: "sim-70b",
			Messages: []openai.ChatCompletionMessage{{Role: "user", Content: fmt.Sprint(i)}}})
		require.True(t, errors.As(err, new(*openai.APIError)))
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.CreateChatCompletion(canceled, openai.ChatCompletionRequest{Model: "sim-70b"})
	require.Error(t, err)
	_, err = c.ListModels(t.Context()) // no prompt
	require.NoError(t, err)
	e := c.Experiment()
	require.EqualValues(t, 20, e.Treatment.Calls+e.Control.Calls)
	require.EqualValues(t, 20, e.Treatment.Failed+e.Control.Failed)
	require.Zero(t, e.Treatment.Conversations+e.Control.Conversations)
}

// A call that no endpoint could be picked for has failed in its arm.
func TestExperimentCountsFailedPicks(t *testing.T) {
	fleet := fleettest.New(1, fleettest.Config{})
	defer fleet.Close()
	c, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithExperiment(client.Random, .5),
		client.WithTimeouts(client.Timeouts{Total: time.Nanosecond})) // over before the first pick
	require.NoError(t, err)
	defer c.Close()
	for i := range 20 {
		_, err := c.CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{Model: "sim-70b",
			Messages: []openai.ChatCompletionMessage{{Role: "user", Content: fmt.Sprint(i)}}})
		require.ErrorIs(t, err, middleware.ErrTotalTimeout)
	}
	e := c.Experiment()
	require.EqualValues(t, 20, e.Treatment.Calls+e.Control.Calls)
	require.EqualValues(t, 20, e.Treatment.Failed+e.Control.Failed)
	require.Positive(t, e.Control.Failed)
	require.Positive(t, e.Treatment.Failed)
}

// FixedPrefix refuses some cache keys; as a control it must not break calls.
func TestExperimentLeavesOutWhatAnArmRefuses(t *testing.T) {
	c := experimentClient(t, client.WithExperiment(client.FixedPrefix, .5))
	ask := func(key string) {
		for i := range 10 {
			_, err := c.CreateChatCompletion(client.WithCacheKey(t.Context(), key), openai.ChatCompletionRequest{Model: "sim-70b",
				MaxCompletionTokens: 1, Messages: []openai.ChatCompletionMessage{{Role: "user", Content: fmt.Sprint(i)}}})
			require.NoError(t, err)
		}
	}
	ask(strings.Repeat("x", 65))
	ask("é")
	e := c.Experiment()
	require.Zero(t, e.Treatment.Calls+e.Control.Calls)
	ask("x")
	e = c.Experiment()
	require.EqualValues(t, 10, e.Treatment.Calls+e.Control.Calls)
	require.Positive(t, e.Control.Calls)
}

func TestWrongExperiments(t *testing.T) {
	for want, o := range map[string]client.Option{
		"use one of":   client.WithExperiment("worst", .5),
		"with itself":  client.WithExperiment(client.Affinity, .5),
		"above 0":      client.WithExperiment(client.Random, 0),
		"and below 1;": client.WithExperiment(client.Random, 1),
	} {
		_, err := client.New(client.WithEndpoints("http://a:8000"), o)
		require.ErrorContains(t, err, want)
	}
	t.Setenv("PREFIXWISE_DISABLED", "1")
	c, err := client.New(client.WithEndpoints("http://127.0.0.1:1"), client.WithExperiment(client.Random, .5))
	require.NoError(t, err)
	defer c.Close()
	require.Nil(t, c.Experiment(), "the kill switch")
}
