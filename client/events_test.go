package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/discovery"
)

// A logbook is a slog.Handler that keeps the lines of level Info and above.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logbook) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (b *logbook) WithAttrs([]slog.Attr) slog.Handler           { return b }
func (b *logbook) WithGroup(string) slog.Handler                { return b }
func (b *logbook) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
	return nil
}

// take returns the lines since the last time.
func (b *logbook) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := strings.Join(b.lines, "\n")
	b.lines = nil
	return text
}

// A scripted fleet answers in process, so that time can be virtual: real
// sockets are not durably blocking in a synctest bubble.
type scripted struct {
	mu     sync.Mutex
	names  []string
	dns    error
	status map[string]int // by host and path; 200 when there is none
}

func (s *scripted) Resolve(context.Context) (all []discovery.Endpoint, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.names {
		e, err := discovery.ParseURL("http://" + name)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, s.dns
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status, set := s.status[req.URL.Host+req.URL.Path]
	if !set {
		status = 200
	}
	if status == 0 {
		return nil, fmt.Errorf("connection to %s refused", req.URL.Host)
	}
	body := `{"choices":[{"message":{"role":"assistant","content":"secret"},"finish_reason":"stop"}],"error":{"message":"secret"}}`
	if req.URL.Path == "/metrics" {
		body = ""
		for _, name := range []string{"num_requests_running", "num_requests_waiting", "prefix_cache_queries_total",
			"prefix_cache_hits_total", "prompt_tokens_total", "time_to_first_token_seconds_count"} {
			body += "vllm:" + name + `{engine="0"} 0` + "\n"
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}, nil
}

func (s *scripted) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Each change of state is one line, with the endpoint and without prompts or keys.
func TestStateChangesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := &scripted{names: []string{"a:1", "b:1", "c:1"}, status: map[string]int{}}
		var book logbook
		c, err := New(WithResolver(fleet), WithTransport(fleet), WithLogger(slog.New(&book)), WithAPIKey("secret"),
			WithResolveInterval(2*time.Second), WithHealthChecks(time.Second), WithModelChecks(0), WithRetries(0),
			WithEjection(&affinity.Ejection{Failures: 2, Time: 10 * time.Second}))
		require.NoError(t, err)
		defer c.Close()
		ask := func(n int) {
			for i := range n {
				_, _ = c.CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{Model: "m",
					Messages: []openai.ChatCompletionMessage{{Role: "user", Content: fmt.Sprint("secret ", i)}}})
			}
		}
		step := func(name string, wait time.Duration, change func(), want ...string) {
			t.Helper()
			fleet.change(change)
			<-time.After(wait)
			synctest.Wait()
			got := book.take()
			for _, w := range want {
				require.Equal(t, 1, strings.Count(got, w), "%s: %q in\n%s", name, w, got)
			}
			require.Equal(t, len(want), len(strings.Fields(strings.ReplaceAll(strings.ReplaceAll(got, " ", "_"), "\n", " "))), "%s:\n%s", name, got)
			require.NotContains(t, got, "secret")
		}
		quiet := func() {}
		step("start", 5*time.Second, quiet, "INFO discovery: the fleet changed endpoints=3 joined=[http://a:1 http://b:1 http://c:1]",
			"INFO discovery: endpoint is healthy endpoint=http://a:1", "INFO discovery: endpoint is healthy endpoint=http://b:1",
			"INFO discovery: endpoint is healthy endpoint=http://c:1")
		step("nothing", time.Minute, quiet)
		step("unhealthy", 20*time.Second, func() { fleet.status["a:1/health"] = 500 }, "WARN discovery: endpoint is unhealthy endpoint=http://a:1")
		step("healthy", 20*time.Second, func() { delete(fleet.status, "a:1/health") }, "INFO discovery: endpoint is healthy endpoint=http://a:1")
		step("joins", 20*time.Second, func() { fleet.names = append(fleet.names, "d:1") },
			"joined=[http://d:1] left=[]", "INFO discovery: endpoint is healthy endpoint=http://d:1")
		step("leaves", 20*time.Second, func() { fleet.names = fleet.names[:3] }, "joined=[] left=[http://d:1]")
		step("DNS fails", 20*time.Second, func() { fleet.dns = errors.New("no such host") }, "WARN discovery: resolution failed")
		step("DNS works", 20*time.Second, func() { fleet.dns = nil }, "INFO discovery: resolution works again")

		ask(1) // the engines of an idle client are not asked
		step("gauges lost", 5*time.Second, func() { fleet.status["c:1/metrics"] = 404 }, "WARN discovery: metrics not read")
		ask(1)
		step("gauges back", 40*time.Second, func() { delete(fleet.status, "c:1/metrics") }, "INFO discovery: metrics are read again endpoint=http://c:1")

		require.NoError(t, c.SetStrategy(RoundRobin))
		require.NoError(t, c.SetStrategy(RoundRobin))
		require.Error(t, c.SetStrategy("nonsense"))
		step("strategy", time.Second, quiet, "INFO strategy changed from=affinity to=round-robin")

		fleet.change(func() { fleet.status["b:1/v1/chat/completions"] = 502 })
		ask(6)
		step("set aside", time.Second, quiet, "WARN endpoint is set aside endpoint=http://b:1 for=10s")
		fleet.change(func() { clear(fleet.status) })
		<-time.After(10 * time.Second)
		ask(20)
		step("returned", time.Second, quiet, "INFO endpoint gets requests again endpoint=http://b:1")
	})
}
