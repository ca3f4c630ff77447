package middleware

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/affinity"
)

// When every endpoint is at its limit, a call waits for room, for the time
// that it may, or until its context ends.
func TestWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeFleet(t, nil)
		f.answer = func(req *http.Request, _ int) (*http.Response, error) {
			return eventsFrom(silent(req.Context(), hello))
		}
		router, err := affinity.New(affinity.Options{Limit: 1, OverLimit: affinity.OverLimitRefuse})
		require.NoError(t, err)
		require.NoError(t, router.Set([]affinity.Endpoint{{ID: "a"}, {ID: "b"}}))
		f.router = router
		r := f.routing()
		r.LimitWait = 5 * time.Second
		rt := f.chain(r, RetryOptions{})
		running := func() context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := post(ctx, rt, chatPath, chatStream)
			require.NoError(t, err)
			return cancel
		}
		end, endOther := running(), running()
		begin := time.Now()
		var mu sync.Mutex
		var waits []time.Duration
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				resp, err := post(t.Context(), rt, chatPath, chatStream)
				mu.Lock()
				defer mu.Unlock()
				if waits = append(waits, time.Since(begin)); err == nil {
					resp.Body.Close()
					return
				}
				require.ErrorIs(t, err, affinity.ErrOverLimit)
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = post(ctx, rt, chatPath, chatStream)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begin))
		<-time.After(time.Second)
		end()
		group.Wait()
		require.Equal(t, []time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second}, waits, "each one's end is room for the next")

		last := running()
		begin = time.Now()
		_, err = post(t.Context(), rt, chatPath, chatStream)
		require.ErrorIs(t, err, affinity.ErrOverLimit)
		require.Equal(t, 5*time.Second, time.Since(begin))
		last()
		endOther()
		synctest.Wait()
		require.Zero(t, f.inFlight())
	})
}
