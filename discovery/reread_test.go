package discovery

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRereadModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEngines()
		f.says("a:1 /v1/models", 200, `{"data":[{"id":"m"}]}`)
		f.says("b:1 /v1/models", 200, `{"data":[{"id":"m"}]}`)
		o := probing(t, f, "http://a:1", "http://b:1")
		o.ModelsInterval, o.HealthInterval = 0, -1
		w := watch(t, o)
		advance(2 * time.Second)
		f.says("b:1 /v1/models", 200, `{"data":[{"id":"m"},{"id":"new"}]}`)
		begin := time.Now()
		require.NoError(t, w.RereadModels(t.Context()))
		require.Equal(t, []string{"m", "new"}, w.Members()[1].Models)
		require.Zero(t, time.Since(begin))
		advance(time.Millisecond)
		require.NoError(t, w.RereadModels(t.Context()))
		require.Equal(t, soon, time.Since(begin), "an endpoint is asked at most once a second")

		f.slow("a:1 /v1/models", time.Minute)
		advance(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorIs(t, w.RereadModels(ctx), context.DeadlineExceeded)
		require.NoError(t, w.Close())
		require.ErrorIs(t, w.RereadModels(t.Context()), ErrClosed)

		o.ModelsInterval = -1
		off := watch(t, o)
		require.NoError(t, off.RereadModels(t.Context()))
	})
}
