package fleettest_test

import (
	"fmt"
	"sync"
	"testing"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client/fleettest"
)

// Instances fail in every way while requests run: each request ends, and the
// fleet can be closed with nothing left (TestMain looks for goroutines).
func TestFailuresUnderLoad(t *testing.T) {
	fleet := fleettest.New(3, fleettest.Config{TimeScale: 50, CacheTokens: 2000})
	defer fleet.Close()
	clients := make([]*openai.Client, fleet.Len())
	for i := range clients {
		clients[i] = dial(fleet.URL(i))
	}
	var group sync.WaitGroup
	stop := make(chan struct{})
	var mu sync.Mutex
	ended, failed := 0, 0
	for g := range 24 {
		group.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				req := ask(fmt.Sprint("question ", g, k))
				var err error
				if k%2 == 0 {
					_, err = clients[(g+k)%3].CreateChatCompletion(t.Context(), req)
				} else {
					var s *openai.ChatCompletionStream
					s, err = clients[(g+k)%3].CreateChatCompletionStream(t.Context(), req)
					for err == nil {
						_, err = s.Recv()
					}
					if s != nil {
						s.Close()
					}
				}
				mu.Lock()
				ended++
				if err != nil {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	done := func() int {
		mu.Lock()
		defer mu.Unlock()
		return ended
	}
	for round := range 12 {
		i := round % 3
		for _, f := range []fleettest.Fault{{Slow: 3}, {Stream: fleettest.StreamCut, Times: 5}, {Hang: true}} {
			fleet.SetFault(i, f)
		}
		fleet.Kill(i)
		require.NoError(t, fleet.Restart(i))
		if round == 6 {
			fleet.Drain(i)
			fleet.Abort(i)
		}
		before := done()
		for done() < before+20 { // let some pass; every one of them must end
			_, err := clients[i].ListModels(t.Context())
			require.NoError(t, err)
		}
	}
	close(stop)
	group.Wait()
	require.NotZero(t, failed)
	require.Less(t, failed, ended)
	for _, s := range fleet.Stats() {
		require.Zero(t, s.Running+s.Waiting)
	}
}
