package discovery

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests use real sockets; nothing in them waits for a fixed time.

// until returns the first member of the first set for which ok holds of it.
func until(t *testing.T, sets <-chan []Member, ok func(Member) bool) Member {
	t.Helper()
	return untilSet(t, sets, func(ms []Member) bool { return ok(ms[0]) })[0]
}

// untilSet returns the first set for which ok holds.
func untilSet(t *testing.T, sets <-chan []Member, ok func([]Member) bool) []Member {
	t.Helper()
	for {
		select {
		case ms := <-sets:
			if ok(ms) {
				return ms
			}
		case <-t.Context().Done():
			t.Fatal("it never came")
		case <-time.After(30 * time.Second):
			t.Fatal("it did not come in 30 s")
		}
	}
}

// onSockets watches r with fast probes and returns its sets.
func onSockets(t *testing.T, o Options) (*Watcher, <-chan []Member) {
	t.Helper()
	sets := make(chan []Member, 1024)
	o.HealthInterval, o.ModelsInterval = 10*time.Millisecond, 10*time.Millisecond
	o.OnChange = func(ms []Member) { sets <- ms }
	return watch(t, o), sets
}

// engine is a loopback server that answers as vLLM does.
func engine(t *testing.T, handle func(w http.ResponseWriter, r *http.Request)) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"m"},{"id":"lora"}]}`))
	})
	var h http.Handler = mux
	if handle != nil {
		h = http.HandlerFunc(handle)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func static(t *testing.T, urls ...string) []Resolver {
	t.Helper()
	r, err := Static(urls...)
	require.NoError(t, err)
	return []Resolver{r}
}

func TestSocketsHealthyThenGone(t *testing.T) {
	s := engine(t, nil)
	w, sets := onSockets(t, Options{Resolvers: static(t, s.URL+"/v1")})
	require.NoError(t, w.Ready(t.Context()))
	m := until(t, sets, func(m Member) bool { return m.Health == Healthy && m.Models != nil })
	assert.Equal(t, s.URL, m.ID)
	assert.Equal(t, []string{"lora", "m"}, m.Models)
	s.Close()
	m = until(t, sets, func(m Member) bool { return m.Health == Unhealthy })
	assert.ErrorContains(t, m.HealthErr, "refused")
	assert.Equal(t, []string{"lora", "m"}, m.Models)
}

// Requirement 14: the key goes nowhere else, whatever an endpoint answers.
func TestSocketsRedirectsAreNotFollowed(t *testing.T) {
	var followed atomic.Int32
	other := engine(t, func(http.ResponseWriter, *http.Request) { followed.Add(1) })
	keys := make(chan string, 1024)
	s := engine(t, func(w http.ResponseWriter, r *http.Request) {
		keys <- r.URL.Path + " " + r.Header.Get("Authorization")
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	var log bytes.Buffer
	w, sets := onSockets(t, Options{
		Resolvers: static(t, s.URL),
		Header:    http.Header{"Authorization": {"Bearer s3cret"}},
		Logger:    slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	m := until(t, sets, func(m Member) bool { return m.Health == Unhealthy })
	assert.ErrorContains(t, m.HealthErr, "redirects are not followed")
	for w.Members()[0].ModelsErr == nil {
		<-keys
	}
	assert.ErrorContains(t, w.Members()[0].ModelsErr, "redirects are not followed")
	require.NoError(t, w.Close())
	s.Close() // when the last probe, which was given up, has been answered too
	assert.Zero(t, followed.Load())
	assert.NotContains(t, log.String(), "s3cret")
	close(keys)
	for k := range keys {
		if strings.HasPrefix(k, "/health") {
			assert.Equal(t, "/health ", k)
		}
	}
}

// A name is dialled at its address, with the name as Host and in TLS.
func TestSocketsDialTheAddressOfTheName(t *testing.T) {
	hosts := make(chan string, 1024)
	s := engine(t, func(_ http.ResponseWriter, r *http.Request) { hosts <- r.Host })
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())
	r, err := List(Endpoint{ID: "a", URL: &url.URL{Scheme: "http", Host: "vllm.invalid:8000"}, Addr: addr, Rank: NoRank})
	require.NoError(t, err)
	w, _ := onSockets(t, Options{Resolvers: []Resolver{r}})
	require.NoError(t, w.Ready(t.Context()))
	assert.Equal(t, "vllm.invalid:8000", <-hosts)
}

func TestSocketsTLSByName(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	names := make(chan string, 1024)
	s.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- h.ServerName
		return nil, nil
	}}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate()) // for example.com
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())
	probe := func(host string) error {
		e := Endpoint{ID: "a", URL: &url.URL{Scheme: "https", Host: host}, Addr: addr, Rank: NoRank}
		rt := plainTransport(false)(e).(*http.Transport)
		rt.TLSClientConfig.RootCAs = pool
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL.String()+"/health", nil)
		require.NoError(t, err)
		resp, err := rt.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	assert.NoError(t, probe("example.com."))
	assert.Equal(t, "example.com", <-names, "SNI has no trailing dot")
	var wrong x509.HostnameError
	assert.ErrorAs(t, probe("other.test"), &wrong, "the name is verified, not the address")
}

func TestSocketsRefuseNamesThatPointToMetadata(t *testing.T) {
	rt := plainTransport(false)(Endpoint{URL: &url.URL{Scheme: "http", Host: "h"}, Addr: netip.MustParseAddrPort("169.254.169.254:80")})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://h/health", nil)
	require.NoError(t, err)
	_, err = rt.RoundTrip(req)
	assert.ErrorIs(t, err, ErrAddrRefused)
}

// An endpoint that accepts and says nothing, beside a good one.
func TestSocketsBlackHole(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer hole.Close()
	s := engine(t, nil)
	w, sets := onSockets(t, Options{
		Resolvers:     static(t, "a=http://"+hole.Addr().String(), "b="+s.URL),
		HealthTimeout: 50 * time.Millisecond,
	})
	require.NoError(t, w.Ready(t.Context()))
	// On a busy machine the good one may be late as well, for a moment.
	ms := untilSet(t, sets, func(ms []Member) bool { return ms[0].Health == Unhealthy && ms[1].Health == Healthy })
	assert.Equal(t, "a", ms[0].ID)
	assert.ErrorContains(t, ms[0].HealthErr, "no answer within 50ms")
	require.NoError(t, w.Close(), "with a probe under way")
}

func TestSocketsEndlessModels(t *testing.T) {
	var sent atomic.Int64
	s := engine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			return
		}
		for chunk := bytes.Repeat([]byte(" "), 64<<10); ; {
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	w := watch(t, Options{Resolvers: static(t, s.URL), ModelsInterval: time.Hour})
	for w.Members()[0].ModelsErr == nil {
		require.NoError(t, t.Context().Err())
		changed(w)
	}
	assert.ErrorContains(t, w.Members()[0].ModelsErr, "longer than")
	assert.False(t, errors.Is(w.Members()[0].ModelsErr, errTooLong))
	assert.Less(t, sent.Load(), int64(32<<20), "it stopped reading")
}

// changed waits for the next snapshot.
func changed(w *Watcher) {
	w.mu.Lock()
	c := w.changed
	done := w.places
	w.mu.Unlock()
	for _, p := range done {
		w.mu.Lock()
		err := p.modelsErr
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
	<-c
}
