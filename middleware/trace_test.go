package middleware

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What Begin returns is told of its own call alone, attempts and end, whether
// the Trace comes with the context or by Observe.
func TestBeginTracesOneCall(t *testing.T) {
	f := newFakeFleet(t, func(_ *http.Request, n int) (*http.Response, error) {
		if n%2 == 1 {
			return status(503, `{}`)
		}
		return status(200, answerOK)
	})
	type key struct{}
	var mu sync.Mutex
	begun, attempts, ended := map[any]int{}, map[any]int{}, map[any]int{}
	count := func(m map[any]int, of any) {
		mu.Lock()
		defer mu.Unlock()
		m[of]++
	}
	trace := &Trace{Begin: func(ctx context.Context) *Trace {
		id := ctx.Value(key{})
		count(begun, id)
		return &Trace{
			Begin:  func(context.Context) *Trace { t.Error("the Begin of a call's own Trace ran"); return nil },
			Picked: func(Picked) { count(attempts, id) },
			Done:   func(Done) { count(ended, id) },
		}
	}}
	rt := Chain(Observe(trace), Observe(&Trace{Begin: func(context.Context) *Trace { return nil }}))(f.chain(f.routing(), RetryOptions{MinWait: 1}))
	for id := range 3 {
		ctx := context.WithValue(t.Context(), key{}, id)
		_, err := post(WithTrace(ctx, trace), rt, chatPath, chat)
		require.NoError(t, err)
		_, err = post(ctx, rt, chatPath, chat)
		require.NoError(t, err)
	}
	once := map[any]int{0: 2, 1: 2, 2: 2}
	require.Equal(t, once, begun, "a Trace that is given twice counts once")
	require.Equal(t, map[any]int{0: 4, 1: 4, 2: 4}, attempts)
	require.Equal(t, once, ended)
}

// A hook's header is sent with its attempt, and with no other.
func TestPickedSetsTheAttemptsHeader(t *testing.T) {
	f := newFakeFleet(t, func(_ *http.Request, n int) (*http.Response, error) {
		if n == 1 {
			return status(503, `{}`)
		}
		return status(200, answerOK)
	})
	trace := &Trace{Picked: func(p Picked) {
		require.Equal(t, p.Endpoint+".test", p.URL.Host)
		p.SetHeader("X-Attempt", strconv.Itoa(p.Attempt))
		if p.Attempt == 1 {
			p.SetHeader("X-First", "yes")
		}
	}}
	req, err := http.NewRequestWithContext(WithTrace(t.Context(), trace), http.MethodGet, "http://fleet.test/v1/models", nil)
	require.NoError(t, err)
	req.Header.Set("X-Attempt", "the caller's")
	_, err = f.chain(f.routing(), RetryOptions{MinWait: 1}).RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, http.Header{"X-Attempt": {"the caller's"}}, req.Header, "the caller's request stays as it is")
	require.Len(t, f.seen, 2)
	require.Equal(t, http.Header{"X-Attempt": {"1"}, "X-First": {"yes"}}, f.seen[0].header)
	require.Equal(t, http.Header{"X-Attempt": {"2"}}, f.seen[1].header)
}
