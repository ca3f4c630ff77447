package client_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/prefixwise/prefixwise/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWrongConfigurationsSayWhatToWrite(t *testing.T) {
	fleet := client.WithEndpoints("http://a:8000")
	tests := map[string]struct {
		opts []client.Option
		want string
	}{
		"no endpoints":      {nil, `client.WithEndpoints("http://host:8000")`},
		"empty list":        {[]client.Option{client.WithEndpoints()}, "http://"},
		"no scheme":         {[]client.Option{client.WithEndpoints("a:8000")}, "http://a:8000"},
		"short prefix":      {[]client.Option{fleet, client.WithFixedPrefix(10, 0)}, "from 1024 to 65536"},
		"duplicate":         {[]client.Option{client.WithEndpoints("http://a:8000", "http://A:8000/v1/")}, "http://A:8000/v1/"},
		"unknown strategy":  {[]client.Option{fleet, client.WithStrategy("afinity")}, "use one of affinity, "},
		"negative limit":    {[]client.Option{fleet, client.WithLimit(-1)}, "WithLimit(-1)"},
		"negative sessions": {[]client.Option{fleet, client.WithSessions(client.SessionOptions{Max: -1})}, "write 0"},
		"negative retries":  {[]client.Option{fleet, client.WithRetries(-1)}, "write 0"},
		"refusal, no limit": {[]client.Option{fleet, client.WithRefusal()}, "WithLimit(n)"},
		"no rank":           {[]client.Option{fleet, client.WithDataParallel(0)}, "write 1"},
		"too many ranks":    {[]client.Option{fleet, client.WithDataParallel(math.MaxInt)}, "no engine has more than 4096 ranks"},
		"endless index":     {[]client.Option{fleet, client.WithIndexBytes(math.MaxInt)}, "at most 64 GiB"},
		"key with a line":   {[]client.Option{fleet, client.WithAPIKey("key\n")}, "trim it"},
		"nil logger":        {[]client.Option{fleet, client.WithLogger(nil)}, "WithLogger"},
		"nil observer":      {[]client.Option{fleet, client.WithObserver(nil)}, "WithObserver"},
		"nil resolver":      {[]client.Option{client.WithResolver(nil)}, "WithResolver"},
		"unknown level":     {[]client.Option{fleet, client.WithCanonicalization(99)}, "canon"},
		"two transports":    {[]client.Option{fleet, client.WithTransport(http.DefaultTransport), client.WithTLS(&tls.Config{})}, "exclude"},
	}
	if math.MaxInt == math.MaxInt32 { // an int cannot ask for that much
		delete(tests, "endless index")
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := client.New(tt.opts...)
			require.ErrorContains(t, err, "prefixwise: wrong configuration")
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := client.New(client.WithLimit(-1), client.WithRetries(-1))
	require.ErrorContains(t, err, "WithLimit")
	require.ErrorContains(t, err, "WithRetries", "everything that is wrong is said at once")
}

func TestNewWithConfig(t *testing.T) {
	var auth, org string
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		auth, org = r.Header.Get("Authorization"), r.Header.Get("OpenAI-Organization")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	})
	quiet := []client.Option{client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0)}
	config := openai.DefaultConfig("token")
	_, err := client.NewWithConfig(config, quiet...)
	require.ErrorContains(t, err, "BaseURL is OpenAI's own")

	for _, bad := range []openai.ClientConfig{openai.DefaultAzureConfig("k", s.URL), openai.DefaultAnthropicConfig("k", s.URL)} {
		_, err := client.NewWithConfig(bad, quiet...)
		require.ErrorContains(t, err, "API type")
	}

	var through atomic.Int64
	config.BaseURL, config.OrgID = s.URL+"/v1", "org"
	config.HTTPClient = &http.Client{Timeout: time.Minute, Transport: counting{&through}}
	c, err := client.NewWithConfig(config, quiet...)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.ListModels(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Bearer token", auth)
	require.Equal(t, "org", org)
	require.EqualValues(t, 1, through.Load(), "the caller's transport is the base of the chain")
	require.Zero(t, c.HTTPClient().Timeout)

	config.HTTPClient = doerFunc(func(r *http.Request) (*http.Response, error) {
		through.Add(1)
		return http.DefaultClient.Do(r)
	})
	own, err := client.NewWithConfig(config, append(quiet, client.WithEndpoints(s.URL))...)
	require.NoError(t, err)
	defer own.Close()
	_, err = own.ListModels(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, through.Load())
	http.DefaultClient.CloseIdleConnections()
}

type counting struct{ n *atomic.Int64 }

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return http.DefaultTransport.RoundTrip(r)
}

type doerFunc func(*http.Request) (*http.Response, error)

func (f doerFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

func TestFromEnv(t *testing.T) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	_, err := client.FromEnv()
	require.ErrorContains(t, err, "PREFIXWISE_ENDPOINTS is not set")

	var auth string
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		auth = r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	})
	t.Setenv("PREFIXWISE_ENDPOINTS", s.URL)
	t.Setenv("OPENAI_API_KEY", "from-env\n")
	c, err := client.FromEnv(client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.ListModels(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Bearer from-env", auth)
}

// The kill switch is one that nobody can miss: all but a no is a yes.
func TestKillSwitch(t *testing.T) {
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	})
	for value, want := range map[string]string{
		"": "affinity", "0": "affinity", "false": "affinity", "No": "affinity", " off ": "affinity",
		"1": "least-outstanding", "true": "least-outstanding", " 1\n": "least-outstanding", "YES": "least-outstanding", "please": "least-outstanding",
	} {
		t.Setenv("PREFIXWISE_DISABLED", value)
		c := newClient(t, s.URL)
		require.NoError(t, c.SetStrategy(client.Affinity), "it does not undo the switch")
		require.Error(t, c.SetStrategy("afinity"))
		list, err := c.ListModels(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, list.Header().Get("X-Prefixwise-Strategy"), "%q", value)
	}
}

// A nil pointer in an interface is no transport either.
func TestNilTransport(t *testing.T) {
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	})
	var none *http.Transport
	cfg := openai.DefaultConfig("")
	cfg.BaseURL, cfg.HTTPClient = s.URL, &http.Client{Transport: none}
	c, err := client.NewWithConfig(cfg, client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.ListModels(t.Context())
	require.NoError(t, err)
	resp, err := c.HTTPClient().Get(s.URL)
	require.NoError(t, err)
	resp.Body.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestRequestWithoutURL(t *testing.T) {
	c := newClient(t, "http://a:8000")
	_, err := c.Transport().RoundTrip(&http.Request{Body: io.NopCloser(strings.NewReader("x"))})
	require.ErrorContains(t, err, "the request has no URL")
}

// Only the fleet's URL is routed; the fleet's key goes nowhere else.
func TestOtherHostsPassThroughWithoutTheKey(t *testing.T) {
	var got http.Header
	other := newPlainServer(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() })
	s := newPlainServer(t, func(http.ResponseWriter, *http.Request) {})
	c := newClient(t, s.URL)
	resp, err := c.HTTPClient().Get(other.URL)
	require.NoError(t, err)
	resp.Body.Close()
	require.Empty(t, got.Get("Authorization"))
	require.Empty(t, s.requests())
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()

	// Without the transport the fleet's URL leads nowhere (RFC 6761). It is not
	// tried: a proxy or a resolver of the machine's would be asked.
	base, err := url.Parse(c.BaseURL())
	require.NoError(t, err)
	require.Equal(t, ".invalid", path.Ext(base.Hostname()))
}

// The key goes to /v1 only: /health and /metrics may be answered by anything.
func TestProbesAndTheKey(t *testing.T) {
	var mu sync.Mutex
	auth := map[string]string{}
	seen := make(chan string, 16)
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		auth[r.URL.Path] = r.Header.Get("Authorization")
		mu.Unlock()
		seen <- r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"},{"id":"adapter","object":"model"}]}`)
	})
	c, err := client.New(client.WithEndpoints(s.URL), client.WithAPIKey("secret"))
	require.NoError(t, err)
	defer c.Close()
	for got := map[string]bool{}; len(got) < 3; {
		got[<-seen] = true
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[string]string{"/health": "", "/metrics": "", "/v1/models": "Bearer secret"}, auth)
}

// Whatever becomes of 10,000 requests, nothing stays in flight.
func TestInFlightReturnsToZero(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then does net/http notice that the client has gone
		switch rand.IntN(8) {
		case 0:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(503)
			fmt.Fprint(w, `{"error":{"message":"busy","code":503}}`)
		case 1:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":{"message":"bad","code":400}}`)
		case 2:
			panic(http.ErrAbortHandler)
		case 3: // never answers
			<-r.Context().Done()
		case 4: // a stream that never goes on
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, goodStream[:len(goodStream)/2+40])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case 5: // a stream that is cut
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, goodStream[:len(goodStream)/2+40])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, goodStream)
		}
	})
	var urls []string
	for range 4 {
		s := httptest.NewServer(handler)
		defer s.Close()
		urls = append(urls, s.URL)
	}
	c, err := client.New(client.WithEndpoints(urls...), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0), client.WithRetries(1))
	require.NoError(t, err)
	defer c.Close()
	var g errgroup.Group
	g.SetLimit(64)
	for i := range 10_000 {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%20)*time.Millisecond)
			defer cancel()
			request := openai.ChatCompletionRequest{Model: "m", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: fmt.Sprint(i % 100)}}}
			s, err := c.CreateChatCompletionStream(ctx, request)
			if err != nil {
				return nil
			}
			for i%3 != 0 { // a third drops the stream without reading it
				if _, err := s.Recv(); err != nil {
					break
				}
			}
			if i%2 == 0 { // half never close it; the context ends it
				s.Close()
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.Eventually(t, func() bool {
		for _, e := range c.Stats().Endpoints {
			if e.InFlight != 0 {
				return false
			}
		}
		return true
	}, 10*time.Second, time.Millisecond, "%+v", c.Stats())
	stats := c.Stats()
	require.EqualValues(t, 10_000, stats.Calls)
}

func TestHintsReachTheKey(t *testing.T) {
	handler := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	}
	var urls []string
	for range 3 {
		urls = append(urls, newPlainServer(t, handler).URL)
	}
	c, err := client.New(client.WithEndpoints(urls...), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
	require.NoError(t, err)
	defer c.Close()
	at := func(ctx context.Context, text string) string {
		resp, err := c.CreateChatCompletion(ctx, openai.ChatCompletionRequest{Model: "m", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: text}}})
		require.NoError(t, err)
		return resp.Header().Get("X-Prefixwise-Endpoint")
	}
	session := client.WithSession(t.Context(), "one")
	home := at(session, "0")
	for i := range 32 {
		require.Equal(t, home, at(session, fmt.Sprint(i)))
	}
	spread := map[string]bool{}
	for i := range 64 {
		spread[at(client.WithTenant(t.Context(), fmt.Sprint(i)), "same")] = true
		spread[at(client.WithCacheKey(t.Context(), fmt.Sprint(i)), "same")] = true
	}
	require.Len(t, spread, 3)
	require.NoError(t, c.SetStrategy(client.RoundRobin))
	require.Error(t, c.SetStrategy("nonsense"))
	require.Equal(t, client.RoundRobin, c.Stats().Strategy)
}
