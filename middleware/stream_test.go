package middleware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	role    = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	hello   = `data: {"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}` + "\n\n"
	stop    = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	second  = `data: {"choices":[{"index":1,"delta":{"content":"other"},"finish_reason":null}]}` + "\n\n"
	abort   = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}` + "\n\n"
	usage8  = `data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}` + "\n\n"
	failure = `data: {"error":{"message":"out of memory","type":"InternalServerError","code":500}}` + "\n\n"
	done    = "data: [DONE]\n\n"
)

// What a stream's bytes lead to when every endpoint answers with them.
func TestRequirement03_CompletionRule(t *testing.T) {
	tests := []struct {
		name      string
		body      io.Reader
		delivered string // "" when the call must fail before a response
		want      error
	}{
		{"complete", strings.NewReader(role + hello + stop + done), role + hello + stop + done, nil},
		{"nothing but the end of an answer", strings.NewReader(role + stop + done), role + stop + done, nil},
		{"last line without newline", strings.NewReader(hello + stop + "data: [DONE]"), hello + stop + "data: [DONE]", nil},
		{"cut after the end mark", cut(hello + stop + done), hello + stop + done, nil},
		{"length is a good end", strings.NewReader(hello + strings.Replace(stop, "stop", "length", 1) + done),
			hello + strings.Replace(stop, "stop", "length", 1) + done, nil},
		{"no end mark", strings.NewReader(hello + stop), hello + stop, ErrTruncated},
		{"cut in the middle", cut(hello), hello, io.ErrUnexpectedEOF},
		{"unfinished", strings.NewReader(hello + done), hello, ErrUnfinished},
		{"one of two choices unfinished", strings.NewReader(hello + second + stop + done), hello + second + stop, ErrUnfinished},
		{"choices that never came", strings.NewReader(hello + stop + done), hello + stop, ErrUnfinished},
		{"aborted after content", strings.NewReader(hello + abort + done), hello + abort, ErrAborted},
		{"error event after content", strings.NewReader(hello + failure + done), hello, new(EngineError)},
		{"aborted at once", strings.NewReader(role + abort + done), "", ErrAborted},
		{"error event at once", strings.NewReader(role + failure + done), "", new(EngineError)},
		{"end mark alone", strings.NewReader(done), "", ErrEmptyStream},
		{"role and end mark", strings.NewReader(role + done), "", ErrUnfinished},
		{"empty", strings.NewReader(""), "", ErrTruncated},
		{"cut at once", cut(""), "", io.ErrUnexpectedEOF},
		{"endless line", io.MultiReader(strings.NewReader(hello+"data: "), io.LimitReader(filler{}, 20<<20)), hello, ErrLineTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, err := io.ReadAll(io.LimitReader(tt.body, 20<<20))
			end := io.EOF
			if err != nil {
				end = err
			}
			f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
				return eventsFrom(io.MultiReader(strings.NewReader(string(body)), iotest.ErrReader(end)))
			})
			request := chatStream
			if tt.name == "choices that never came" {
				request = strings.Replace(request, `"stream"`, `"n":2,"stream"`, 1)
			}
			resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{MinWait: 1, MaxWait: 1}), chatPath, request)
			if tt.delivered == "" {
				requireCause(t, err, tt.want)
				attempts := 4
				if connectionLost(err) {
					attempts = maxLost
				}
				require.Equal(t, attempts, f.attempts(), "an early failure is tried again")
				require.Zero(t, f.inFlight())
				return
			}
			require.NoError(t, err)
			got, err := readAll(resp)
			require.Equal(t, tt.delivered, got)
			if tt.want == nil {
				require.NoError(t, err)
			} else {
				requireCause(t, err, tt.want)
				var typed *Error
				require.ErrorAs(t, err, &typed)
				require.EqualValues(t, len(tt.delivered), typed.Delivered)
				require.NotEmpty(t, typed.Endpoint)
			}
			require.Equal(t, 1, f.attempts(), "nothing is sent again once the caller has content")
			require.Zero(t, f.inFlight(), "the lease ends with the stream, closed or not")
		})
	}
}

type filler struct{}

func (filler) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func requireCause(t *testing.T, err, want error) {
	t.Helper()
	if _, ok := want.(*EngineError); ok {
		var e *EngineError
		require.ErrorAs(t, err, &e)
		require.Equal(t, EngineError{Message: "out of memory", Type: "InternalServerError", Code: 500}, *e)
		return
	}
	require.ErrorIs(t, err, want)
}

// Everything that is not held back arrives byte for byte, however it is split.
func TestStreamBytesAreUnchanged(t *testing.T) {
	bodies := map[string]string{
		"CRLF":         strings.ReplaceAll(role+hello+stop+done, "\n", "\r\n"),
		"comments":     ": ping\n\n" + role + ": ping\n\n" + hello + "id: 7\nretry: 10\nevent: x\n" + stop + done,
		"no space":     strings.ReplaceAll(role+hello+stop+done, "data: ", "data:"),
		"two choices":  hello + second + stop + strings.Replace(stop, `"index":0`, `"index":1`, 1) + done,
		"two lines":    "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"x\"}}]}\n\n" + stop + done,
		"not JSON":     "data: hello\n\n" + hello + stop + done,
		"after end":    hello + stop + done + ": bye\n\n",
		"usage wanted": role + hello + stop + usage8 + done,
		"long line":    strings.Replace(hello, "hello", strings.Repeat("long ", 50_000), 1) + stop + done,
	}
	for name, body := range bodies {
		for _, split := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
			f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
				return eventsFrom(split(strings.NewReader(body)))
			})
			request := strings.Replace(chatStream, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
			resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{}), chatPath, request)
			require.NoError(t, err, name)
			got, err := readAll(resp)
			require.NoError(t, err, name)
			require.Equal(t, body, got, name)
		}
	}
}

// The usage that we asked for is ours: the caller, whose code may index
// choices[0], does not see that event.
func TestUsageIsAskedForAndHeldBack(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return events(hello + stop + usage8 + done) })
	var d Done
	rt := Observe(&Trace{Done: func(got Done) { d = got }})(f.chain(f.routing(), RetryOptions{}))
	resp, err := post(t.Context(), rt, chatPath, chatStream)
	require.NoError(t, err)
	got, err := readAll(resp)
	require.NoError(t, err)
	require.Equal(t, hello+stop+done, got)
	require.Contains(t, f.seen[0].body, `"stream_options":{"include_usage":true}`)
	require.Equal(t, 10, d.PromptTokens)
	require.Equal(t, 8, d.CachedTokens)
	require.Equal(t, 3, d.CompletionTokens)
}

// Each event reaches the caller when it arrives, not when the next one does.
func TestStreamIsNotDelayed(t *testing.T) {
	f := newFakeFleet(t, nil)
	r, w := io.Pipe()
	f.answer = func(*http.Request, int) (*http.Response, error) { return eventsFrom(r) }
	go io.WriteString(w, role+hello)
	resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{}), chatPath, chatStream)
	require.NoError(t, err)
	require.Equal(t, role+hello, readN(t, resp.Body, len(role+hello)))
	for _, event := range []string{hello, ": ping\n", stop} {
		go io.WriteString(w, event)
		require.Equal(t, event, readN(t, resp.Body, len(event)))
	}
	go func() {
		io.WriteString(w, done)
		w.Close()
	}()
	require.Equal(t, done, readN(t, resp.Body, len(done)))
	require.Zero(t, f.inFlight(), "the end mark ends the lease, before Close")
	require.NoError(t, resp.Body.Close())
}

func readN(t *testing.T, r io.Reader, n int) string {
	t.Helper()
	p := make([]byte, n)
	_, err := io.ReadFull(r, p)
	require.NoError(t, err)
	return string(p)
}

func TestRequirement12_Timeouts(t *testing.T) {
	limits := func(f *fakeFleet) Routing {
		r := f.routing()
		r.FirstByte, r.Idle = 30*time.Second, 10*time.Second
		return r
	}
	t.Run("connect", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeFleet(t, nil)
			f.eject(1)
			transport := NewTransport(TransportOptions{ConnectTimeout: 3 * time.Second, Base: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { // a black hole
					<-ctx.Done()
					return nil, ctx.Err()
				}}})
			begin := time.Now()
			_, err := post(t.Context(), Chain(Retry(RetryOptions{Max: 1, MinWait: 1, MaxWait: 1}), Route(limits(f)))(transport), chatPath, chat)
			require.ErrorIs(t, err, ErrConnectTimeout)
			var typed *Error
			require.ErrorAs(t, err, &typed)
			require.Equal(t, PhaseConnect, typed.Phase)
			require.True(t, typed.Timeout())
			require.InDelta(t, 6*time.Second, time.Since(begin), float64(time.Millisecond))
			require.Zero(t, f.inFlight())
		})
	})
	t.Run("first byte", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeFleet(t, func(req *http.Request, _ int) (*http.Response, error) {
				return eventsFrom(silent(req.Context(), role))
			})
			begin := time.Now()
			_, err := post(t.Context(), f.chain(limits(f), RetryOptions{Max: 1, MinWait: 1, MaxWait: 1}), chatPath, chatStream)
			require.ErrorIs(t, err, ErrFirstByteTimeout)
			require.Equal(t, 2, f.attempts())
			require.InDelta(t, time.Minute, time.Since(begin), float64(time.Millisecond))
			require.Zero(t, f.inFlight())
		})
	})
	t.Run("idle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeFleet(t, func(req *http.Request, _ int) (*http.Response, error) {
				return eventsFrom(silent(req.Context(), hello))
			})
			resp, err := post(t.Context(), f.chain(limits(f), RetryOptions{}), chatPath, chatStream)
			require.NoError(t, err)
			begin := time.Now()
			got, err := readAll(resp)
			require.Equal(t, hello, got)
			require.ErrorIs(t, err, ErrIdleTimeout)
			var timeout interface{ Timeout() bool }
			require.True(t, errors.As(err, &timeout) && timeout.Timeout())
			require.Equal(t, 10*time.Second, time.Since(begin))
			require.Zero(t, f.inFlight())
		})
	})
	t.Run("slow but alive", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return eventsFrom(r) })
			go func() {
				for range 100 {
					<-time.After(9 * time.Second) // the bubble's clock
					io.WriteString(w, hello)
				}
				io.WriteString(w, stop+done)
				w.Close()
			}()
			resp, err := post(t.Context(), f.chain(limits(f), RetryOptions{}), chatPath, chatStream)
			require.NoError(t, err)
			got, err := readAll(resp)
			require.NoError(t, err)
			require.Equal(t, strings.Repeat(hello, 100)+stop+done, got)
		})
	})
	t.Run("a slow reader is not an idle endpoint", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return events(hello + stop + done) })
			resp, err := post(t.Context(), f.chain(limits(f), RetryOptions{}), chatPath, chatStream)
			require.NoError(t, err)
			readN(t, resp.Body, len(hello))
			<-time.After(time.Hour) // the bubble's clock
			rest, err := readAll(resp)
			require.NoError(t, err)
			require.Equal(t, stop+done, rest)
		})
	})
	t.Run("total", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeFleet(t, func(req *http.Request, _ int) (*http.Response, error) {
				return eventsFrom(silent(req.Context(), hello))
			})
			resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{Total: time.Minute}), chatPath, chatStream)
			require.NoError(t, err)
			_, err = readAll(resp)
			require.ErrorIs(t, err, ErrTotalTimeout)
			require.Zero(t, f.inFlight())
		})
	})
	t.Run("total of a plain call that is never answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeFleet(t, func(req *http.Request, _ int) (*http.Response, error) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			})
			begin := time.Now()
			_, err := post(t.Context(), f.chain(limits(f), RetryOptions{Total: time.Hour}), chatPath, chat)
			require.ErrorIs(t, err, ErrTotalTimeout)
			require.Equal(t, time.Hour, time.Since(begin))
			var e *Error
			require.ErrorAs(t, err, &e)
			require.True(t, e.Timeout())
			require.Equal(t, "prefixwise: "+e.Endpoint+": first byte: no complete answer within the total timeout (Timeouts.Total)", e.Error())
			require.Equal(t, 1, f.attempts())
			require.Zero(t, f.inFlight())
		})
	})
}

// A caller that cancels and then drops the stream leaves nothing behind.
func TestCancelledStreamEndsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeFleet(t, func(req *http.Request, _ int) (*http.Response, error) {
			return eventsFrom(silent(req.Context(), hello))
		})
		var d Done
		rt := Observe(&Trace{Done: func(got Done) { d = got }})(f.chain(f.routing(), RetryOptions{}))
		ctx, cancel := context.WithCancel(t.Context())
		_, err := post(ctx, rt, chatPath, chatStream)
		require.NoError(t, err)
		require.Equal(t, 1, f.inFlight())
		cancel()
		synctest.Wait()
		require.Zero(t, f.inFlight())
		require.ErrorIs(t, d.Err, context.Canceled)
	})
}

// A caller that cancels and closes at once has left, whichever is noticed first.
func TestCloseAfterCancelIsNoAnswer(t *testing.T) {
	for name, body := range map[string]func(io.Reader) (*http.Response, error){
		"stream": eventsFrom,
		"file": func(r io.Reader) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"audio/wav"}}, Body: io.NopCloser(r), ContentLength: -1}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeFleet(t, func(req *http.Request, _ int) (*http.Response, error) {
					return body(silent(req.Context(), hello))
				})
				var d Done
				rt := Observe(&Trace{Done: func(got Done) { d = got }})(f.chain(f.routing(), RetryOptions{}))
				ctx, cancel := context.WithCancel(t.Context())
				resp, err := post(ctx, rt, chatPath, strings.Replace(chatStream, "true", fmt.Sprint(name == "stream"), 1))
				require.NoError(t, err)
				cancel()
				resp.Body.Close()
				synctest.Wait()
				require.Equal(t, OutcomeCanceled, d.Outcome())
				require.Zero(t, f.inFlight())
			})
		})
	}
}

func TestCancelledReadIsTheCallersError(t *testing.T) {
	f := newFakeFleet(t, func(req *http.Request, _ int) (*http.Response, error) {
		return eventsFrom(silent(req.Context(), hello))
	})
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := post(ctx, f.chain(f.routing(), RetryOptions{}), chatPath, chatStream)
	require.NoError(t, err)
	readN(t, resp.Body, len(hello))
	cancel()
	_, err = readAll(resp)
	require.ErrorIs(t, err, context.Canceled)
}

// The Messages API has no word for a generation that the engine gave up: vLLM
// ends it like any other, with a stop_reason of null.
func TestUnfinishedMessages(t *testing.T) {
	const (
		path  = "http://fleet.test/v1/messages"
		begin = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"stop_reason\":null,\"usage\":{\"input_tokens\":9}}}\n\n"
		text  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n"
		good  = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"input_tokens\":9,\"output_tokens\":1,\"cache_read_input_tokens\":8}}\n\n"
		over  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
		plain = `{"type":"message","content":[{"type":"text","text":"\"stop_reason\":\"no\""}],"stop_reason":"max_tokens"}`
	)
	null := strings.Replace(good, `"end_turn"`, "null", 1)
	for _, tt := range []struct {
		name, body string
		stream     bool
		delivered  string
		attempts   int
		want       error
	}{
		{name: "stream", body: begin + text + good + over, stream: true, delivered: begin + text + good + over, attempts: 1},
		{name: "stream without content", body: begin + good + over, stream: true, delivered: begin + good + over, attempts: 1},
		{name: "stream given up", body: begin + text + null + over, stream: true, delivered: begin + text + null + "event: message_stop\n", attempts: 1, want: ErrUnfinished},
		{name: "stream given up at once", body: begin + null + over, stream: true, attempts: 4, want: ErrUnfinished},
		{name: "plain", body: plain, delivered: plain, attempts: 1},
		{name: "plain given up", body: strings.Replace(plain, `"max_tokens"`, "null", 1), attempts: 4, want: ErrUnfinished},
		{name: "plain without a reason", body: strings.Replace(plain, `,"stop_reason":"max_tokens"`, "", 1), attempts: 4, want: ErrUnfinished},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
				if tt.stream {
					return eventsFrom(strings.NewReader(tt.body))
				}
				return status(200, tt.body)
			})
			request := fmt.Sprintf(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hello"}],"stream":%v}`, tt.stream)
			resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{MinWait: 1, MaxWait: 1}), path, request)
			var got string
			if err == nil {
				got, err = readAll(resp)
			}
			require.Equal(t, tt.delivered, got)
			require.Equal(t, tt.attempts, f.attempts())
			require.ErrorIs(t, err, tt.want)
			require.Zero(t, f.inFlight())
		})
	}
}
