package client_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/client"
)

// A model that was loaded a moment ago is found by the call that asks for it;
// a wrong name has the lists read once, not for every call.
func TestModelThatWasJustLoaded(t *testing.T) {
	var loaded atomic.Bool
	var read atomic.Int64
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			answerPlain(w, r)
			return
		}
		read.Add(1)
		w.Header().Set("Content-Type", "application/json")
		more := ""
		if loaded.Load() {
			more = `,{"id":"m"}`
		}
		fmt.Fprintf(w, `{"object":"list","data":[{"id":"base"}%s]}`, more)
	})
	fresh := func() *client.Client {
		c, err := client.New(client.WithEndpoints(s.URL), client.WithHealthChecks(0))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.Eventually(t, func() bool { return c.Stats().Endpoints[0].Models != nil }, 5*time.Second, time.Millisecond)
		return c
	}
	c := fresh()
	loaded.Store(true)
	_, err := c.CreateChatCompletion(t.Context(), question("x"))
	require.NoError(t, err)

	c = fresh()
	before := read.Load()
	for range 20 {
		request := question("x")
		request.Model = "mistyped"
		_, err := c.CreateChatCompletion(t.Context(), request)
		require.ErrorIs(t, err, affinity.ErrModelNotServed)
		require.ErrorContains(t, err, "base")
	}
	require.Equal(t, before+1, read.Load())
}
