package middleware

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A vLLM that is told to stop closes its port and leaves a plain request's
// connection open and silent: it is given up after a while and answered
// elsewhere.
func TestSilentEndpointThatRefusesIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeFleet(t, func(req *http.Request, n int) (*http.Response, error) {
			if n == 1 {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return status(200, answerOK)
		})
		var flights Flights
		defer flights.Close()
		r := f.routing()
		r.Flights = &flights
		where := make(chan string, 2)
		ctx := WithTrace(t.Context(), &Trace{Picked: func(p Picked) { where <- p.Endpoint }})
		go func() { flights.Refuses(<-where) }()
		begin := time.Now()
		resp, err := post(ctx, f.chain(r, RetryOptions{MinWait: 1, MaxWait: 1}), chatPath, chat)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, 2, f.attempts())
		require.InDelta(t, lostGrace, time.Since(begin), float64(time.Millisecond))
		require.Zero(t, f.inFlight())
		require.Empty(t, flights.all)
	})
}

// What comes back in time, and what has begun to answer, is left alone.
func TestWorkingEndpointIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flights Flights
		defer flights.Close()
		f := newFakeFleet(t, func(req *http.Request, n int) (*http.Response, error) {
			select {
			case <-time.After(5 * time.Minute):
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
			return status(200, answerOK)
		})
		r := f.routing()
		r.Flights = &flights
		ctx := WithTrace(t.Context(), &Trace{Picked: func(p Picked) {
			flights.Refuses(p.Endpoint)
			time.AfterFunc(lostGrace-time.Second, func() { flights.Accepts(p.Endpoint) })
		}})
		_, err := post(ctx, f.chain(r, RetryOptions{}), chatPath, chat)
		require.NoError(t, err)
		require.Equal(t, 1, f.attempts())

		f.answer = func(req *http.Request, _ int) (*http.Response, error) {
			return eventsFrom(silent(req.Context(), hello))
		}
		r.Idle = 2 * time.Minute
		ctx = WithTrace(t.Context(), &Trace{FirstByte: func(b FirstByte) { flights.Refuses(b.Endpoint) }})
		resp, err := post(ctx, f.chain(r, RetryOptions{}), chatPath, chatStream)
		require.NoError(t, err)
		_, err = readAll(resp)
		require.ErrorIs(t, err, ErrIdleTimeout, "a stream that has begun has the idle limit")
	})
}
