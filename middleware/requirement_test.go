package middleware

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/prefixwise/prefixwise/affinity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

// strategy gives the fleet n endpoints under a strategy.
func (f *fakeFleet) strategy(n int, s affinity.Strategy) {
	router, err := affinity.New(affinity.Options{Strategy: s})
	require.NoError(f.t, err)
	f.router = router
	require.NoError(f.t, router.Set(endpoints(n)))
}

func endpoints(n int) []affinity.Endpoint {
	all := make([]affinity.Endpoint, n)
	for i := range all {
		all[i].ID = fmt.Sprintf("engine-%d", i)
	}
	return all
}

// conversation is a chat about the n-th matter.
func conversation(n int) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"conversation %d"}]}`, n)
}

// Whatever becomes of 10,000 calls, and while endpoints come and go: every
// count ends at zero and is never negative.
func TestRequirement01_InFlightExact(t *testing.T) {
	f := newFakeFleet(t, nil)
	f.eject(4)
	f.answer = func(req *http.Request, n int) (*http.Response, error) {
		switch n % 10 {
		case 0:
			return nil, errRefused
		case 1:
			return status(503, `{}`)
		case 2:
			return status(400, `{}`)
		case 3:
			return eventsFrom(cut(hello))
		case 4:
			return events(role + abort + done)
		case 5:
			return eventsFrom(silent(req.Context(), hello))
		case 6:
			return eventsFrom(silent(req.Context(), role))
		case 7:
			return status(200, answerOK)
		}
		return events(role + hello + stop + done)
	}
	rt := f.chain(f.routing(), RetryOptions{MinWait: 1, MaxWait: 1})
	var calls, reported atomic.Int64
	rt = Observe(&Trace{Done: func(Done) { reported.Add(1) }})(rt)
	stopFlapping := make(chan struct{})
	var flapping sync.WaitGroup
	flapping.Go(func() { // endpoint "d" leaves and comes back
		all := []affinity.Endpoint{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}
		for i := 0; ; i++ {
			select {
			case <-stopFlapping:
				return
			default:
				if err := f.router.Set(all[:3+i%2]); err != nil {
					t.Error(err)
				}
				for _, e := range f.router.Stats() {
					if e.InFlight < 0 {
						t.Error("negative", e)
					}
				}
				runtime.Gosched()
			}
		}
	})
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			for i := calls.Add(1); i <= 10_000; i = calls.Add(1) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(3))*time.Millisecond)
				body := chat
				if i%3 > 0 {
					body = chatStream
				}
				resp, err := post(ctx, rt, chatPath, body)
				if err == nil && i%4 > 0 { // a quarter is never read
					readAll(resp)
				}
				if err == nil && i%2 == 0 { // half are never closed
					resp.Body.Close()
					resp.Body.Close()
				}
				if i%8 != 1 {
					cancel()
				} else { // the end of the context is the only sign
					context.AfterFunc(ctx, cancel)
				}
			}
		})
	}
	group.Wait()
	close(stopFlapping)
	flapping.Wait()
	require.Eventually(t, func() bool { return f.inFlight() == 0 && reported.Load() == 10_000 }, 5*time.Second, time.Millisecond,
		"%d in flight, %d calls reported", f.inFlight(), reported.Load())
	require.NoError(t, f.router.Set([]affinity.Endpoint{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}))
	for _, e := range f.router.Stats() {
		require.Zero(t, e.InFlight, e.ID)
		require.Equal(t, e.Picks, e.Released, e.ID)
	}
}

// A hook that panics does not keep its place in flight.
func TestPanicEndsTheLease(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
	ctx := WithTrace(t.Context(), &Trace{Picked: func(Picked) { panic("a bug of the caller's") }})
	require.Panics(t, func() { post(ctx, f.chain(f.routing(), RetryOptions{}), chatPath, chat) })
	require.Zero(t, f.inFlight())
}

// When an endpoint dies, its conversations spread over all the others, each
// call excludes what it has tried, and all clients agree on where they go.
func TestRequirement06_FailoverSpreads(t *testing.T) {
	const n, conversations = 8, 2000
	where := func(dead string) (homes, places map[int]string) {
		homes, places = map[int]string{}, map[int]string{}
		f := newFakeFleet(t, func(req *http.Request, _ int) (*http.Response, error) {
			if req.URL.Host == dead+".test" {
				return nil, errRefused
			}
			return status(200, answerOK)
		})
		f.strategy(n, affinity.BoundedLoad)
		for i := range conversations {
			rt := f.chain(f.routing(), RetryOptions{MinWait: 1, MaxWait: 1}) // a budget each
			ctx := WithTrace(t.Context(), &Trace{Picked: func(p Picked) { homes[i] = p.Home }})
			resp, err := post(ctx, rt, chatPath, conversation(i))
			require.NoError(t, err)
			places[i] = resp.Header.Get(HeaderEndpoint)
			attempts := "1"
			if homes[i] == dead {
				attempts = "2"
			}
			require.Equal(t, attempts, resp.Header.Get(HeaderAttempts))
		}
		return homes, places
	}
	homes, places := where("engine-3")
	_, again := where("engine-3")
	require.Equal(t, places, again, "another client sends them to the same places")
	moved, share := 0, map[string]int{}
	for i, home := range homes {
		if home == "engine-3" {
			moved++
			share[places[i]]++
		} else {
			require.Equal(t, home, places[i])
		}
	}
	require.InDelta(t, conversations/n, moved, conversations/n/3)
	require.Len(t, share, n-1)
	for id, got := range share {
		require.LessOrEqual(t, got, 2*moved/(n-1), id)
	}
}

// The place of a conversation depends on the set of endpoints and on nothing
// else: not on their order, the client, or what came before. (The order itself
// is held by the golden vectors of package affinity.)
func TestRequirement07_AffinityStable(t *testing.T) {
	const conversations = 2000
	places := func(set []affinity.Endpoint) map[int]string {
		f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
		f.strategy(1, affinity.BoundedLoad)
		require.NoError(t, f.router.Set(set))
		rt := f.chain(f.routing(), RetryOptions{})
		at := map[int]string{}
		for _, i := range rand.Perm(conversations) {
			resp, err := post(t.Context(), rt, chatPath, conversation(i))
			require.NoError(t, err)
			at[i] = resp.Header.Get(HeaderEndpoint)
		}
		return at
	}
	nine := endpoints(9)
	eight := places(nine[:8])
	shuffled := endpoints(8)
	rand.Shuffle(8, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	require.Equal(t, eight, places(shuffled))
	taken := 0
	for i, id := range places(nine) {
		if id != eight[i] {
			require.Equal(t, "engine-8", id, "only the new one takes over keys")
			taken++
		}
	}
	require.InDelta(t, conversations/9, taken, conversations/9/3)
	for i, id := range places(nine[:7]) {
		if eight[i] != "engine-7" {
			require.Equal(t, eight[i], id, "only keys of the one that left move")
		}
	}
}

// One conversation that everybody has does not overload its home.
func TestRequirement08_BoundedLoad(t *testing.T) {
	for _, n := range []int{3, 8, 40, 300} {
		f := newFakeFleet(t, nil)
		f.answer = func(req *http.Request, _ int) (*http.Response, error) {
			return eventsFrom(silent(req.Context(), hello))
		}
		f.strategy(n, affinity.BoundedLoad)
		rt := f.chain(f.routing(), RetryOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		for total := 1; total <= 400; total++ {
			_, err := post(ctx, rt, chatPath, chatStream)
			require.NoError(t, err)
			bound := max(8, (5*total+4*n-1)/(4*n)) // the floor, or 1.25 of the mean rounded up
			for _, e := range f.router.Stats() {
				require.LessOrEqual(t, e.InFlight, bound, "%d of %d at %d endpoints", e.InFlight, total, n)
			}
		}
		cancel()
		require.Eventually(t, func() bool { return f.inFlight() == 0 }, 5*time.Second, time.Millisecond)
	}
	// All full: the least loaded one, or a refusal at once, or a wait.
	for _, refuse := range []affinity.OverLimit{affinity.OverLimitExceed, affinity.OverLimitRefuse} {
		f := newFakeFleet(t, nil)
		f.answer = func(req *http.Request, _ int) (*http.Response, error) {
			return eventsFrom(silent(req.Context(), hello))
		}
		router, err := affinity.New(affinity.Options{Limit: 2, OverLimit: refuse})
		require.NoError(t, err)
		require.NoError(t, router.Set(endpoints(3)))
		f.router = router
		rt := f.chain(f.routing(), RetryOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		for range 6 {
			_, err := post(ctx, rt, chatPath, chatStream)
			require.NoError(t, err)
		}
		for range 3 {
			_, err := post(ctx, rt, chatPath, chatStream)
			if refuse == affinity.OverLimitRefuse {
				require.ErrorIs(t, err, affinity.ErrOverLimit)
				continue
			}
			require.NoError(t, err)
		}
		if refuse == affinity.OverLimitExceed {
			for _, e := range router.Stats() {
				require.Equal(t, 3, e.InFlight, "the least loaded is next")
			}
		}
		cancel()
		require.Eventually(t, func() bool { return f.inFlight() == 0 }, 5*time.Second, time.Millisecond)
	}
}

// A fleet in which an endpoint fails, all fail, and one recovers.
func TestRequirement13_Ejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead sync.Map
		f := newFakeFleet(t, func(req *http.Request, _ int) (*http.Response, error) {
			if err := req.Context().Err(); err != nil {
				return nil, err
			}
			if mode, ok := dead.Load(strings.TrimSuffix(req.URL.Host, ".test")); ok {
				if mode == "refused" {
					return nil, errRefused
				}
				return status(200, strings.Replace(answerOK, `"stop"`, `"abort"`, 1))
			}
			return status(200, answerOK)
		})
		f.eject(4)
		rt := f.chain(f.routing(), RetryOptions{MinWait: 1, MaxWait: 1})
		tries := func() map[string]int { // where 200 calls of 200 conversations were tried
			tried := map[string]int{}
			for i := range 200 {
				ctx := WithTrace(t.Context(), &Trace{Picked: func(p Picked) { tried[p.Endpoint]++ }})
				post(ctx, rt, chatPath, conversation(i))
			}
			return tried
		}
		// Cancelled calls are nobody's fault.
		for i := range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := post(ctx, rt, chatPath, conversation(i))
			require.Error(t, err)
		}
		require.Len(t, tries(), 4)

		dead.Store("b", "refused")
		require.Equal(t, 5, tries()["b"], "five failures in a row, and no more")
		<-time.After(10 * time.Second) // the bubble's clock
		require.Equal(t, 1, tries()["b"], "half open: one probe")
		dead.Delete("b")
		<-time.After(20 * time.Second)
		require.Greater(t, tries()["b"], 20, "it takes its share again")

		// All look bad: there is nothing better than to try.
		for _, id := range []string{"a", "b", "c", "d"} {
			dead.Store(id, "refused")
		}
		tries()
		require.Len(t, tries(), 4)
		dead.Clear()
		<-time.After(time.Minute)
		tries()
		require.Len(t, tries(), 4)

		// An engine that aborts is shutting down: one sign is enough.
		dead.Store("c", "aborting")
		tried := map[string]int{}
		for i := range 200 {
			ctx := WithTrace(t.Context(), &Trace{Picked: func(p Picked) { tried[p.Endpoint]++ }})
			resp, err := post(ctx, rt, chatPath, conversation(i))
			require.NoError(t, err)
			resp.Body.Close()
		}
		require.Equal(t, 1, tried["c"])
		require.Zero(t, f.inFlight())
	})
}

// An engine that hangs while its /health is fine is found by streams that get
// no first content.
func TestHungEngineIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeFleet(t, nil)
		var hung atomic.Value
		hung.Store("")
		f.answer = func(req *http.Request, _ int) (*http.Response, error) {
			if req.URL.Host == hung.Load() {
				return eventsFrom(silent(req.Context(), ""))
			}
			return events(hello + stop + done)
		}
		f.eject(4)
		r := f.routing()
		r.Stall = 30 * time.Second
		rt := f.chain(r, RetryOptions{})
		resp, err := post(t.Context(), rt, chatPath, chatStream)
		require.NoError(t, err)
		resp.Body.Close()
		home := resp.Header.Get(HeaderEndpoint)
		hung.Store(home + ".test")
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { post(ctx, rt, chatPath, chatStream) })
		<-time.After(29 * time.Second)
		synctest.Wait()
		require.False(t, f.aside(home))
		<-time.After(time.Second)
		synctest.Wait()
		require.True(t, f.aside(home))
		resp, err = post(t.Context(), rt, chatPath, chatStream)
		require.NoError(t, err)
		resp.Body.Close()
		require.NotEqual(t, home, resp.Header.Get(HeaderEndpoint))
		cancel()
		group.Wait()
		require.Zero(t, f.inFlight())
	})
}

func (f *fakeFleet) aside(id string) bool {
	for _, e := range f.router.Stats() {
		if e.ID == id {
			return e.Aside
		}
	}
	return false
}

// Whatever an endpoint sends, memory is bounded, and nothing is left running.
func TestRequirement15_BoundedMemory(t *testing.T) {
	endless := func(prefix, piece string) io.ReadCloser {
		return io.NopCloser(io.MultiReader(strings.NewReader(prefix), &repeating{piece: bytes.Repeat([]byte(piece), 1+32<<10/len(piece))}))
	}
	tests := []struct {
		name string
		body func() io.ReadCloser
		code int
		kind string
		want error
	}{
		{"line", func() io.ReadCloser { return endless(hello+"data: ", "x") }, 200, "text/event-stream", ErrLineTooLong},
		{"line before content", func() io.ReadCloser { return endless("data: ", "x") }, 200, "text/event-stream", ErrLineTooLong},
		{"comments before content", func() io.ReadCloser { return endless("", ": ping\n") }, 200, "text/event-stream", ErrLineTooLong},
		{"roles before content", func() io.ReadCloser { return endless("", role) }, 200, "text/event-stream", ErrLineTooLong},
		{"comments in an event", func() io.ReadCloser { return endless(hello+"data: {\n", ": ping\n") }, 200, "text/event-stream", ErrLineTooLong},
		{"lines of an event", func() io.ReadCloser { return endless(hello+"data: {\n", "data: 1,\n") }, 200, "text/event-stream", ErrLineTooLong},
		{"plain answer", func() io.ReadCloser { return endless("{", " ") }, 200, "application/json", ErrResponseTooLarge},
		{"something else", func() io.ReadCloser { return endless("", "sound") }, 200, "audio/mpeg", ErrResponseTooLarge},
		{"error", func() io.ReadCloser { return endless("", "no ") }, 500, "text/plain", nil},
	}
	var before, after runtime.MemStats
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
				return &http.Response{StatusCode: tt.code, Header: http.Header{"Content-Type": {tt.kind}}, Body: tt.body(), ContentLength: -1}, nil
			})
			r := f.routing()
			r.MaxResponse = 80 << 20
			runtime.ReadMemStats(&before)
			resp, err := post(t.Context(), f.chain(r, RetryOptions{Max: -1}), chatPath, chatStream)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, resp.Body.Close())
				resp.Body.Close()
			}
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, tt.want)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(700<<20))
			require.Zero(t, f.inFlight())
		})
	}
}

// repeating is a body without an end.
type repeating struct {
	piece []byte
	at    int
}

func (r *repeating) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := copy(p[n:], r.piece[r.at:])
		n += k
		r.at = (r.at + k) % len(r.piece)
	}
	return n, nil
}

// What an engine says about its input is for the caller, not for the log.
func TestLogHasNoText(t *testing.T) {
	secret := func(event string) string {
		return strings.Replace(event, "out of memory", "cannot serve: my secret prompt", 1)
	}
	const typed = "data: {\"type\":\"error\",\"error\":{\"type\":\"x\",\"message\":\"out of memory\"}}\n\n"
	for name, tt := range map[string]struct{ path, body string }{
		"an event that fails":  {chatPath, hello + secret(failure) + done},
		"before the first one": {chatPath, secret(failure) + done},
		"an event for callers": {"http://fleet.test/v1/messages", "data: {\"type\":\"content_block_delta\"}\n\n" + secret(typed)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return events(tt.body) })
			var out bytes.Buffer
			rt := Log(textLogger(&out))(f.chain(f.routing(), RetryOptions{Max: 1}))
			said := ""
			resp, err := post(t.Context(), rt, tt.path, chatStream)
			if err == nil {
				said, err = readAll(resp)
			}
			if err != nil {
				said += err.Error()
			}
			require.Contains(t, said, "my secret prompt")
			require.Contains(t, out.String(), "the engine reported an error")
			require.NotContains(t, out.String(), "secret")
		})
	}
}

// What is no HTTP is quoted by net/http, and may be the rest of an answer.
func TestLogHasNoBrokenAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"a status line": "my secret answer\r\n\r\n",
		"a status":      "HTTP/1.1 secret\r\n\r\n",
		"a header":      "HTTP/1.1 200 OK\r\nmy secret answer\r\n\r\n",
		"half a header": "HTTP/1.1 200 OK\r\nsecret",
		"a length":      "HTTP/1.1 200 OK\r\nContent-Length: secret\r\n\r\n",
		"a trailer":     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTrailer: X-A\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nmy secret answer\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				if req, err := http.ReadRequest(bufio.NewReader(server)); err == nil {
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = io.WriteString(server, answer)
				}
			}()
			transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return client, nil }}
			defer transport.CloseIdleConnections()
			f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return nil, nil })
			var out bytes.Buffer
			rt := Log(textLogger(&out))(Chain(Retry(RetryOptions{Max: -1}), Route(f.routing()))(transport))
			_, err := post(t.Context(), rt, chatPath, chat)
			require.ErrorContains(t, err, "secret")
			require.Contains(t, out.String(), "call ended")
			require.NotContains(t, out.String(), "secret")
		})
	}
}
