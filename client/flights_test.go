package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// open lets two engines work.
func (h *harbour) open(t *testing.T) {
	for _, address := range []string{"10.0.0.1:8000", "10.0.0.2:8000"} {
		var p *port
		p = h.add(t, address, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		})})
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
