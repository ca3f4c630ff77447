package vllmsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// read receives a stream to its end and returns its words, the last
// finish_reason and the error that ended it (nil for a clean end).
func read(t *testing.T, f *fixture, req openai.ChatCompletionRequest) (words int, finish string, err error) {
	s, err := f.CreateChatCompletionStream(t.Context(), req)
	if err != nil {
		return 0, "", err
	}
	defer s.Close()
	for {
		c, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return words, finish, nil
		}
		if err != nil {
			return words, finish, err
		}
		words += len(strings.Fields(c.Choices[0].Delta.Content))
		finish = string(c.Choices[0].FinishReason)
	}
}

func TestStatusFaultForSomeRequests(t *testing.T) {
	f := start(t, Config{})
	f.SetFault(Fault{Status: 503, RetryAfter: "7", Times: 2})
	for i := range 3 {
		resp, err := f.raw.Post(f.url+"/v1/completions", "", strings.NewReader(`{"prompt":"x"}`))
		require.NoError(t, err)
		resp.Body.Close()
		if i < 2 {
			require.Equal(t, 503, resp.StatusCode)
			require.Equal(t, "7", resp.Header.Get("Retry-After"))
		} else {
			require.Equal(t, 200, resp.StatusCode)
			require.Empty(t, resp.Header.Get("Retry-After"))
		}
	}
	for _, code := range []int{429, 500, 418} {
		f.SetFault(Fault{Status: code})
		_, err := f.CreateChatCompletion(t.Context(), user("x"))
		var api *openai.APIError
		require.ErrorAs(t, err, &api)
		require.Equal(t, code, api.HTTPStatusCode)
	}
	f.SetFault(Fault{})
	_, err := f.CreateChatCompletion(t.Context(), user("x"))
	require.NoError(t, err)
	require.EqualValues(t, 2, f.Counters().Requests, "refused requests never reach the engine")
}

func TestStreamCut(t *testing.T) {
	f := start(t, Config{})
	for _, after := range []int{0, 3, 9, 100} {
		f.SetFault(Fault{Stream: StreamCut, AfterTokens: after})
		words, finish, err := read(t, f, user("x"))
		require.Error(t, err)
		require.Equal(t, min(after, 9), words, "an answer is never whole")
		require.Empty(t, finish)
	}
	_, err := f.CreateChatCompletion(t.Context(), user("x"))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestStreamAbort(t *testing.T) {
	f := start(t, Config{})
	for _, after := range []int{0, 3} {
		f.SetFault(Fault{Stream: StreamAbort, AfterTokens: after})
		words, finish, err := read(t, f, user("x"))
		require.NoError(t, err, "[DONE] comes after an abort")
		require.Equal(t, after, words)
		require.Equal(t, "abort", finish)
	}
	r, err := f.CreateChatCompletion(t.Context(), user("x"))
	require.NoError(t, err)
	require.EqualValues(t, "abort", r.Choices[0].FinishReason)
	require.Empty(t, r.Choices[0].Message.Content)
}

func TestStreamError(t *testing.T) {
	f := start(t, Config{})
	f.SetFault(Fault{Stream: StreamError, AfterTokens: 2})
	words, _, err := read(t, f, user("x"))
	var api *openai.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, "InternalServerError", api.Type)
	require.Equal(t, 2, words)
	_, body := f.post(t, "/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"x"}]}`)
	require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"))
	_, err = f.CreateChatCompletion(t.Context(), user("x"))
	require.ErrorAs(t, err, &api)
	require.Equal(t, 500, api.HTTPStatusCode)
}

func TestStreamFaultsBeforeTheFirstEvent(t *testing.T) {
	f := start(t, Config{})
	const body = `{"stream":true,"max_tokens":4,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`
	f.SetFault(Fault{Stream: StreamEmpty})
	_, text := f.post(t, "/v1/chat/completions", body)
	require.Equal(t, "data: [DONE]\n\n", text)
	_, err := f.CreateChatCompletion(t.Context(), user("x"))
	require.ErrorContains(t, err, "500")

	f.SetFault(Fault{Stream: StreamError, AfterTokens: -1})
	_, text = f.post(t, "/v1/chat/completions", body)
	require.Regexp(t, `^data: {"error":.*\n\ndata: \[DONE\]\n\n$`, text)

	f.SetFault(Fault{Stream: StreamCut, AfterTokens: -1})
	resp, err := f.raw.Post(f.url+"/v1/chat/completions", "", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Empty(t, got)
}

func TestNoDone(t *testing.T) {
	f := start(t, Config{})
	f.SetFault(Fault{Stream: NoDone})
	_, body := f.post(t, "/v1/chat/completions", `{"stream":true,"max_tokens":4,"messages":[{"role":"user","content":"x"}]}`)
	require.Contains(t, body, `"finish_reason":"length"`)
	require.NotContains(t, body, "[DONE]")
}

func TestHang(t *testing.T) {
	f := start(t, Config{})
	f.SetFault(Fault{Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := f.CreateChatCompletion(ctx, user("x"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	status, _ := f.get(t, "/health")
	require.Equal(t, 200, status)
	status, _ = f.get(t, "/metrics")
	require.Equal(t, 200, status)

	answer := make(chan error)
	go func() {
		_, err := f.CreateChatCompletion(t.Context(), user("y"))
		answer <- err
	}()
	require.Eventually(t, func() bool { r, w := f.Load(); return r+w > 0 }, 10*time.Second, time.Millisecond)
	f.SetFault(Fault{})
	require.NoError(t, <-answer, "what waited goes on")
}

func TestUnhealthy(t *testing.T) {
	f := start(t, Config{})
	f.SetFault(Fault{Unhealthy: true})
	status, _ := f.get(t, "/health")
	require.Equal(t, 503, status)
	_, err := f.CreateChatCompletion(t.Context(), user("x"))
	require.NoError(t, err)
}

func TestSlowMakesEngineTimeLonger(t *testing.T) {
	f := start(t, Config{TimeScale: 1000})
	_, err := f.CreateChatCompletion(t.Context(), user("x"))
	require.NoError(t, err)
	one := f.Counters().Latency.Sum
	f.SetFault(Fault{Slow: 50})
	_, err = f.CreateChatCompletion(t.Context(), user("x"))
	require.NoError(t, err)
	// Engine time, not the clock of the test machine.
	require.Greater(t, f.Counters().Latency.Sum-one, 20*one)
}

func TestDrainFinishesWhatItHas(t *testing.T) {
	f := start(t, Config{TimeScale: 1})
	s, err := f.CreateChatCompletionStream(t.Context(), user("x"))
	require.NoError(t, err)
	defer s.Close()
	f.Drain()
	_, _, err = read(t, f, user("y"))
	require.ErrorContains(t, err, "cannot schedule new futures after shutdown")
	status, body := f.post(t, "/v1/completions", `{"prompt":[1,2,3]}`)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"finish_reason":"abort"`)
	require.Contains(t, body, `"completion_tokens":0`)
	status, _ = f.get(t, "/health")
	require.Equal(t, 200, status)
	var last string
	for {
		c, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		last = string(c.Choices[0].FinishReason)
	}
	require.Equal(t, "length", last)
}

func TestAbortEndsWhatIsInFlight(t *testing.T) {
	f := start(t, Config{TimeScale: 1})
	req := user("x")
	req.MaxCompletionTokens = 10000
	s, err := f.CreateChatCompletionStream(t.Context(), req)
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Recv()
	require.NoError(t, err)
	f.Abort()
	var last string
	for {
		c, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		last = string(c.Choices[0].FinishReason)
	}
	require.Equal(t, "abort", last)
	require.EqualValues(t, 1, f.Counters().Aborted)
}

func TestCloseEndsRequests(t *testing.T) {
	f := start(t, Config{TimeScale: 1})
	answer := make(chan string)
	go func() {
		req := user("x")
		req.MaxCompletionTokens = 100000
		r, err := f.CreateChatCompletion(context.Background(), req)
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- string(r.Choices[0].FinishReason)
	}()
	require.Eventually(t, func() bool { n, _ := f.Load(); return n == 1 }, 10*time.Second, time.Millisecond)
	f.Close()
	f.Close()
	require.Equal(t, "abort", <-answer)
	status, _ := f.post(t, "/v1/completions", `{"prompt":"x"}`)
	require.Equal(t, 500, status)
}

// Hundreds of requests, a hundred at once, streams and plain, some of which go
// away: every one ends, the answers are right, and nothing is left. Their
// connections have two files each, of which a process may have no more than 256.
func TestManyAtOnce(t *testing.T) {
	f := start(t, Config{TimeScale: 50, CacheTokens: 4000})
	f.raw.Transport.(*http.Transport).MaxConnsPerHost = 100
	f.raw.Transport.(*http.Transport).MaxIdleConnsPerHost = 100
	var group sync.WaitGroup
	failed := make(chan error, 300)
	for i := range 300 {
		group.Go(func() {
			req := user(fmt.Sprint("question ", i%20, longText))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			switch i % 3 {
			case 0:
				r, err := f.CreateChatCompletion(ctx, req)
				if err != nil || len(strings.Fields(r.Choices[0].Message.Content)) != 10 {
					failed <- fmt.Errorf("plain: %v %w", r.Choices, err)
				}
			case 1:
				words, finish, err := read(t, f, req)
				if err != nil || words != 10 || finish != "length" {
					failed <- fmt.Errorf("stream: %d words, %q, %w", words, finish, err)
				}
			case 2:
				s, err := f.CreateChatCompletionStream(ctx, req)
				if err != nil {
					failed <- err
					return
				}
				s.Recv()
				cancel()
				s.Close()
			}
		})
	}
	group.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	require.Eventually(t, func() bool { r, w := f.Load(); return r+w == 0 }, 10*time.Second, time.Millisecond)
	c := f.Counters()
	require.Zero(t, c.UsedBlocks)
	require.EqualValues(t, 300, c.Requests)
	require.Equal(t, c.Requests, c.Stopped+c.Cut+c.Aborted)
}
