package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

// checked is a server to check: a simulated engine behind a handler that can
// spoil its answers.
type checked struct {
	engine vllmsim.Config
	spoil  func(w http.ResponseWriter, r *http.Request, engine http.Handler) // nil: nothing
	server func(*http.Server)
}

func (s checked) start(t *testing.T) string {
	engine, err := vllmsim.NewServer(s.engine)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("Authorization"); key != "" && !strings.HasPrefix(r.URL.Path, "/v1/") {
			t.Errorf("%s got the key", r.URL.Path)
		}
		if s.spoil != nil {
			s.spoil(w, r, engine)
			return
		}
		engine.ServeHTTP(w, r)
	}))
	if s.server != nil {
		s.server(server.Config)
	}
	server.Start()
	t.Cleanup(func() {
		server.Close()
		engine.Close()
	})
	return server.URL
}

// answer replaces what one path answers.
func answer(path string, status int, body string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, engine http.Handler) {
		if r.URL.Path != path {
			engine.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// respell changes the page of metrics.
func respell(from, to string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, engine http.Handler) {
		if r.URL.Path != "/metrics" {
			engine.ServeHTTP(w, r)
			return
		}
		page := httptest.NewRecorder()
		engine.ServeHTTP(page, r)
		fmt.Fprint(w, strings.ReplaceAll(page.Body.String(), from, to))
	}
}

func header(name, value string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, engine http.Handler) {
		w.Header().Set(name, value)
		engine.ServeHTTP(w, r)
	}
}

func check(t *testing.T, urls []string, opts []client.Option, checks ...client.CheckOption) client.Findings {
	c, err := client.New(append([]client.Option{client.WithEndpoints(urls...), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0)}, opts...)...)
	require.NoError(t, err)
	defer c.Close()
	return c.Check(t.Context(), checks...)
}

func TestCheckFindsWhatIsWrongWithAnEndpoint(t *testing.T) {
	good := checked{}.start(t)
	guarded := vllmsim.Config{APIKey: "right"}
	tests := map[string]struct {
		bad     checked
		opts    []client.Option
		checks  []client.CheckOption
		code    client.FindingCode
		worst   client.Severity
		message string
		advice  string
	}{
		"unhealthy":   {checked{spoil: answer("/health", 503, "")}, nil, nil, client.EndpointUnhealthy, client.SevereFinding, "503", "log"},
		"redirect":    {checked{spoil: answer("/version", 307, "")}, nil, nil, client.Redirected, client.SevereFinding, "307", "engine itself"},
		"no key":      {checked{engine: guarded}, nil, nil, client.KeyRefused, client.SevereFinding, "has none", "WithAPIKey"},
		"wrong key":   {checked{engine: guarded}, []client.Option{client.WithAPIKey("wrong")}, nil, client.KeyRefused, client.SevereFinding, "refuses", "--api-key"},
		"no version":  {checked{spoil: answer("/version", 404, "")}, nil, nil, client.VersionUnknown, client.InfoFinding, "404", "not vLLM"},
		"odd version": {checked{spoil: answer("/version", 200, "[]")}, nil, nil, client.VersionUnknown, client.InfoFinding, "200", "not vLLM"},
		"no models":   {checked{spoil: answer("/v1/models", 404, "")}, nil, nil, client.ModelsUnknown, client.WarningFinding, "404", "/v1/models"},
		"empty list":  {checked{spoil: answer("/v1/models", 200, "{}")}, nil, nil, client.ModelsUnknown, client.WarningFinding, "does not list", "/v1/models"},
		"no metrics":  {checked{spoil: answer("/metrics", 404, "")}, nil, nil, client.MetricsUnknown, client.WarningFinding, "404", "/metrics"},
		"other metrics": {checked{spoil: answer("/metrics", 200, "up 1\n")}, nil, nil, client.MetricsUnknown,
			client.WarningFinding, "no vLLM metrics", "/metrics"},
		"long answer": {checked{spoil: answer("/metrics", 200, strings.Repeat("x", 5<<20))}, nil, nil, client.MetricsUnknown,
			client.WarningFinding, "too long", "/metrics"},
		"caching off": {checked{engine: vllmsim.Config{NoPrefixCaching: true}}, nil, nil, client.PrefixCachingOff,
			client.SevereFinding, "off", "--no-enable-prefix-caching"},
		"memory": {checked{spoil: respell(`num_gpu_blocks="`, `num_gpu_blocks="None`)}, nil, nil, client.CacheSizeUnknown,
			client.InfoFinding, "KV memory", "num_gpu_blocks"},
		"ranks": {checked{spoil: func(w http.ResponseWriter, r *http.Request, engine http.Handler) {
			if engine.ServeHTTP(w, r); r.URL.Path == "/metrics" {
				page := httptest.NewRecorder()
				engine.ServeHTTP(page, r)
				fmt.Fprint(w, strings.ReplaceAll(page.Body.String(), `engine="0"`, `engine="1"`))
			}
		}}, nil, nil, client.RanksHidden, client.WarningFinding, "2 engines", "WithDataParallel(2)"},
		"closes": {checked{server: func(s *http.Server) { s.SetKeepAlivesEnabled(false) }}, nil, nil, client.ConnectionsClosed,
			client.WarningFinding, "closes", "keep-alive"},
		"cut": {checked{spoil: func(w http.ResponseWriter, r *http.Request, engine http.Handler) {
			// Closed without a word.
			page := httptest.NewRecorder()
			engine.ServeHTTP(page, r)
			conn, _, err := http.NewResponseController(w).Hijack()
			require.NoError(t, err)
			fmt.Fprintf(conn, "HTTP/1.1 %d .\r\nContent-Length: %d\r\n\r\n%s", page.Code, page.Body.Len(), page.Body)
			conn.Close()
		}}, nil, nil, client.ConnectionsClosed, client.WarningFinding, "closes", "keep-alive"},
		"announced": {checked{spoil: header("Keep-Alive", "max=100, timeout=2")}, nil, nil, client.IdleTimeoutShort,
			client.WarningFinding, "after 2s", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"},
		"ahead": {checked{spoil: header("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))}, nil, nil,
			client.ClockSkewed, client.WarningFinding, "ahead of", "NTP"},
		"behind": {checked{spoil: header("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))}, nil, nil,
			client.ClockSkewed, client.WarningFinding, "behind", "NTP"},
		"silent usage": {checked{engine: vllmsim.Config{NoPromptTokensDetails: true}}, nil, []client.CheckOption{client.CheckUsage()},
			client.CachedTokensUnreported, client.WarningFinding, "do not tell", "--enable-prompt-tokens-details"},
		"no usage": {checked{spoil: answer("/v1/completions", 400, "{}")}, nil, []client.CheckOption{client.CheckUsage()},
			client.UsageUnknown, client.InfoFinding, "400", "generate text"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := tt.bad.start(t)
			found := check(t, []string{good, bad}, tt.opts, tt.checks...)
			require.Len(t, found, 1, found.String())
			f := found[0]
			require.Equal(t, tt.code, f.Code)
			require.Equal(t, bad, f.Endpoint)
			require.Equal(t, tt.worst, f.Severity)
			require.Contains(t, f.Message, tt.message)
			require.Contains(t, f.Advice, tt.advice)
			require.NotContains(t, found.String(), "wrong"+"key")
		})
	}
}

func TestCheckFindsNothingWrongWithAGoodFleet(t *testing.T) {
	key := vllmsim.Config{APIKey: "right"}
	urls := []string{checked{engine: key}.start(t), checked{engine: key}.start(t)}
	found := check(t, urls, []client.Option{client.WithAPIKey("right")}, client.CheckUsage())
	require.Empty(t, found)
	require.Contains(t, found.String(), "set up for prefix routing")
	_, any := found.Worst()
	require.False(t, any)
}

func TestCheckComparesEndpoints(t *testing.T) {
	urls := []string{
		checked{}.start(t),
		checked{engine: vllmsim.Config{Version: "0.31.0"}}.start(t),
		checked{engine: vllmsim.Config{Adapters: []string{"sql"}}}.start(t),
		checked{engine: vllmsim.Config{MaxModelLen: 4096}}.start(t),
	}
	found := check(t, urls, nil)
	codes := map[client.FindingCode]client.Finding{}
	for _, f := range found {
		codes[f.Code] = f
		require.Empty(t, f.Endpoint)
	}
	require.Len(t, found, 3, found.String())
	require.Contains(t, codes[client.VersionsDiffer].Message, "0.31.0 ("+urls[1]+")")
	require.Contains(t, codes[client.ModelsDiffer].Message, "sim-70b, sql ("+urls[2]+")")
	require.Contains(t, codes[client.LengthsDiffer].Message, "4096 tokens ("+urls[3]+")")
	require.Equal(t, client.WarningFinding, found[0].Severity, "the most severe first")
	require.Equal(t, client.InfoFinding, found[2].Severity)
}

func TestCheckOfAFleetThatIsNone(t *testing.T) {
	one := checked{}.start(t)
	found := check(t, []string{one}, []client.Option{client.WithStrategy(client.Random)})
	require.Len(t, found, 2, found.String())
	require.Equal(t, client.FewEndpoints, found[0].Code)
	require.Equal(t, client.PrefixesIgnored, found[1].Code)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	found = check(t, []string{one, closed}, nil)
	require.Len(t, found, 1, found.String())
	require.Equal(t, client.Unreachable, found[0].Code)
	require.Equal(t, closed, found[0].Endpoint)

	c, err := client.New(client.WithResolver(nobody{}))
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	found = c.Check(ctx)
	require.Len(t, found, 1)
	require.Equal(t, client.NoEndpoints, found[0].Code)
}

func TestCheckLooksAtTraffic(t *testing.T) {
	silent := vllmsim.Config{NoPromptTokensDetails: true, TimeScale: 500}
	c, err := client.New(client.WithEndpoints(checked{engine: silent}.start(t), checked{engine: silent}.start(t)))
	require.NoError(t, err)
	defer c.Close()
	for i := range 200 {
		_, err := c.CreateCompletion(t.Context(), openai.CompletionRequest{Model: "sim-70b", MaxTokens: 1,
			Prompt: strings.Repeat(fmt.Sprint(i, " "), 400)})
		require.NoError(t, err)
	}
	found := c.Check(t.Context())
	require.Len(t, found, 2, found.String())
	require.Equal(t, client.CachedTokensUnreported, found[0].Code)
	require.Contains(t, found[0].Message, "none of 200 answers")
	require.Equal(t, client.PrefixRoutingIdle, found[1].Code)
	require.Contains(t, found[1].Message, "little in common")
}

func TestCheckEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	asked := make(chan struct{}, 1)
	hangs := checked{spoil: func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-release
	}}.start(t)
	defer close(release)
	c, err := client.New(client.WithEndpoints(hangs), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	found := c.Check(ctx)
	require.Equal(t, client.Unreachable, found[0].Code)
	require.Contains(t, found[0].Message, context.Canceled.Error())
}

func TestCheckSendsNothingUnlessAsked(t *testing.T) {
	var posts atomic.Int64
	count := checked{spoil: func(w http.ResponseWriter, r *http.Request, engine http.Handler) {
		if r.Method != http.MethodGet {
			posts.Add(1)
		}
		engine.ServeHTTP(w, r)
	}}
	urls := []string{count.start(t), count.start(t)}
	check(t, urls, nil, nil) // a nil option is none, as with New
	require.Zero(t, posts.Load())
	check(t, urls, nil, client.CheckUsage())
	require.EqualValues(t, 2, posts.Load(), "one for each endpoint")
}

func TestFindingsAreReadableAndJSON(t *testing.T) {
	var all client.Findings
	for i := range 256 {
		all = append(all, client.Finding{Code: client.PrefixCachingOff, Severity: client.SevereFinding,
			Endpoint: fmt.Sprintf("http://10.0.0.%d:8000", i), Message: "off", Advice: "on"})
	}
	require.Equal(t, "severe: off (http://10.0.0.0:8000, http://10.0.0.1:8000, http://10.0.0.2:8000 and 253 more) [prefix-caching-off]\n  on\n", all.String())
	text, err := json.Marshal(all[:1])
	require.NoError(t, err)
	require.JSONEq(t, `[{"code":"prefix-caching-off","severity":"severe","endpoint":"http://10.0.0.0:8000","message":"off","advice":"on"}]`, string(text))
	var back client.Findings
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, all[:1], back)
	require.Error(t, json.Unmarshal([]byte(`[{"severity":"loud"}]`), &back))
}

// nobody is a resolver that knows of no endpoint.
type nobody struct{}

func (nobody) Resolve(context.Context) ([]discovery.Endpoint, error) {
	return nil, errors.New("nobody there")
}
