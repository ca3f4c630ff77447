package fleettest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/prefixwise/prefixwise/client/fleettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial returns a client of one instance that keeps no connection open.
func dial(url string) *openai.Client {
	cfg := openai.DefaultConfig("")
	cfg.BaseURL = url
	cfg.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return openai.NewClientWithConfig(cfg)
}

func ask(text string) openai.ChatCompletionRequest {
	return openai.ChatCompletionRequest{
		Model:               "sim-70b",
		MaxCompletionTokens: 8,
		Messages:            []openai.ChatCompletionMessage{{Role: "user", Content: text}},
	}
}

func Example() {
	fleet := fleettest.New(2, fleettest.Config{TimeScale: 100})
	defer fleet.Close()

	cfg := openai.DefaultConfig("")
	cfg.BaseURL = fleet.URL(0)
	cfg.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c := openai.NewClientWithConfig(cfg)
	for range 2 {
		resp, err := c.CreateChatCompletion(context.Background(), openai.ChatCompletionRequest{
			Model:               "sim-70b",
			MaxCompletionTokens: 8,
			Messages: []openai.ChatCompletionMessage{
				{Role: "system", Content: strings.Repeat("You are a patient assistant. ", 20)},
				{Role: "user", Content: "Hello!"},
			},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		u := resp.Usage
		fmt.Println("prompt", u.PromptTokens, "cached", u.PromptTokensDetails.CachedTokens)
	}
	for _, s := range fleet.Stats() {
		fmt.Println(s.Name, "requests", s.Requests, "cached", s.CachedTokens)
	}
	// Output:
	// prompt 149 cached 0
	// prompt 149 cached 144
	// sim-0 requests 2 cached 144
	// sim-1 requests 0 cached 0
}

func TestKillAndRestart(t *testing.T) {
	fleet := fleettest.New(2, fleettest.Config{TimeScale: 100})
	defer fleet.Close()
	c := dial(fleet.URL(0))
	long := strings.Repeat("long text ", 100)
	_, err := c.CreateChatCompletion(t.Context(), ask(long))
	require.NoError(t, err)

	fleet.Kill(0)
	_, err = c.CreateChatCompletion(t.Context(), ask(long))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	s := fleet.Stats()[0]
	require.False(t, s.Alive)
	require.Equal(t, 1, s.Requests)

	url := fleet.URL(0)
	require.NoError(t, fleet.Restart(0))
	require.Equal(t, url, fleet.URL(0))
	r, err := c.CreateChatCompletion(t.Context(), ask(long))
	require.NoError(t, err)
	require.Zero(t, r.Usage.PromptTokensDetails.CachedTokens, "the cache must be empty")
	require.Equal(t, 1, fleet.Stats()[0].Requests)
	require.Equal(t, fleet.Name(0), r.SystemFingerprint)
}

func TestKillCutsStreams(t *testing.T) {
	fleet := fleettest.New(1, fleettest.Config{})
	defer fleet.Close()
	req := ask("hi")
	req.MaxCompletionTokens, req.Stream = 1000, true
	s, err := dial(fleet.URL(0)).CreateChatCompletionStream(t.Context(), req)
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Recv()
	require.NoError(t, err)
	fleet.Kill(0)
	for err == nil {
		_, err = s.Recv()
	}
	require.False(t, errors.Is(err, io.EOF), "a cut stream must not look like a whole one")
}

func TestDrain(t *testing.T) {
	fleet := fleettest.New(1, fleettest.Config{TimeScale: 100})
	defer fleet.Close()
	fleet.Drain(0)
	var refused *openai.APIError
	_, err := dial(fleet.URL(0)).CreateChatCompletion(t.Context(), ask("hi"))
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 500, refused.HTTPStatusCode)
	r, err := dial(fleet.URL(0)).CreateCompletion(t.Context(), openai.CompletionRequest{Model: "sim-70b", Prompt: "hi"})
	require.NoError(t, err)
	require.Equal(t, "abort", r.Choices[0].FinishReason)
	require.Zero(t, r.Usage.CompletionTokens)
}

func TestFaults(t *testing.T) {
	fleet := fleettest.New(1, fleettest.Config{TimeScale: 100})
	defer fleet.Close()
	c := dial(fleet.URL(0))
	plain := func() (string, error) {
		r, err := c.CreateChatCompletion(t.Context(), ask("hi"))
		if err != nil {
			return "", err
		}
		return string(r.Choices[0].FinishReason), nil
	}
	stream := func() error {
		s, err := c.CreateChatCompletionStream(t.Context(), ask("hi"))
		if err != nil {
			return err
		}
		defer s.Close()
		for err == nil {
			_, err = s.Recv()
		}
		return err
	}

	fleet.SetFault(0, fleettest.Fault{Status: 503, Times: 1})
	_, err := plain()
	var api *openai.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, 503, api.HTTPStatusCode)
	_, err = plain()
	require.NoError(t, err)

	fleet.SetFault(0, fleettest.Fault{Stream: fleettest.StreamAbort})
	finish, err := plain()
	require.NoError(t, err)
	require.Equal(t, "abort", finish)

	fleet.SetFault(0, fleettest.Fault{Stream: fleettest.StreamError, AfterTokens: 2})
	require.ErrorAs(t, stream(), &api)

	fleet.SetFault(0, fleettest.Fault{Stream: fleettest.StreamCut, AfterTokens: 2})
	require.ErrorIs(t, stream(), io.ErrUnexpectedEOF)

	fleet.SetFault(0, fleettest.Fault{Stream: fleettest.StreamEmpty})
	require.ErrorIs(t, stream(), io.EOF, "which is why a bare client cannot be trusted")

	fleet.SetFault(0, fleettest.Fault{Unhealthy: true})
	resp, err := http.Get(strings.TrimSuffix(fleet.URL(0), "/v1") + "/health")
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, 503, resp.StatusCode)
	http.DefaultClient.CloseIdleConnections()

	fleet.SetFault(0, fleettest.Fault{Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = c.CreateChatCompletion(ctx, ask("hi"))
	require.ErrorIs(t, err, context.DeadlineExceeded)

	fleet.SetFault(0, fleettest.Fault{})
	_, err = plain()
	require.NoError(t, err)
}

func TestMixedFleet(t *testing.T) {
	fleet := fleettest.NewMixed(
		fleettest.Config{TimeScale: 100, Adapters: []string{"law"}},
		fleettest.Config{TimeScale: 100, Model: "other"},
	)
	defer fleet.Close()
	for i, want := range [][]string{{"sim-70b", "law"}, {"other"}} {
		list, err := dial(fleet.URL(i)).ListModels(t.Context())
		require.NoError(t, err)
		var got []string
		for _, m := range list.Models {
			got = append(got, m.ID)
		}
		require.Equal(t, want, got)
	}
	require.Equal(t, 2, fleet.Len())
}

func TestCachesCanBeReset(t *testing.T) {
	fleet := fleettest.New(1, fleettest.Config{TimeScale: 100})
	defer fleet.Close()
	c := dial(fleet.URL(0))
	cached := func() int {
		r, err := c.CreateChatCompletion(t.Context(), ask(strings.Repeat("long text ", 100)))
		require.NoError(t, err)
		return r.Usage.PromptTokensDetails.CachedTokens
	}
	require.Zero(t, cached())
	require.NotZero(t, cached())
	require.InDelta(t, .5, fleet.Stats()[0].HitRate(), .1)
	fleet.ResetCaches()
	require.Zero(t, cached())
}

func TestImpossibleConfigPanics(t *testing.T) {
	require.Panics(t, func() { fleettest.New(1, fleettest.Config{CacheTokens: 8}) })
}
