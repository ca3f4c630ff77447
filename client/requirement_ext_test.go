package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/discovery"
)

func question(text string) openai.ChatCompletionRequest {
	return openai.ChatCompletionRequest{Model: "m", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: text}}}
}

const plainAnswer = `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`

func answerPlain(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, plainAnswer)
}

// A stream that is cut after k pieces of content is begun anew only if k is 0.
func TestRequirement02_NoReplayAfterContent(t *testing.T) {
	for k := range 4 {
		var asked atomic.Int64
		handler := func(w http.ResponseWriter, r *http.Request) {
			n := asked.Add(1)
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n")
			for i := range 5 {
				if n == 1 && i == k {
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler) // the connection is closed in the middle
				}
				fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"content":"%d "},"finish_reason":null}]}`+"\n\n", i)
			}
			fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		}
		one, two := newPlainServer(t, handler), newPlainServer(t, handler)
		c := newClient(t, one.URL, client.WithEndpoints(two.URL))
		s, err := c.CreateChatCompletionStream(t.Context(), question("count"))
		require.NoError(t, err)
		var text string
		for {
			var chunk openai.ChatCompletionStreamResponse
			if chunk, err = s.Recv(); err != nil {
				break
			}
			text += chunk.Choices[0].Delta.Content
		}
		s.Close()
		if k == 0 {
			require.Equal(t, io.EOF, err)
			require.Equal(t, "0 1 2 3 4 ", text)
			require.EqualValues(t, 2, asked.Load())
			continue
		}
		var typed *client.Error
		require.ErrorAs(t, err, &typed)
		require.Equal(t, "0 1 2 3 4 "[:2*k], text)
		require.EqualValues(t, 1, asked.Load())
	}
}

// scriptedDNS answers as it is told.
type scriptedDNS struct {
	mu     sync.Mutex
	answer func() ([]discovery.Endpoint, error)
	asked  int
}

func (d *scriptedDNS) Resolve(context.Context) ([]discovery.Endpoint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return d.answer()
}

func (d *scriptedDNS) set(answer func() ([]discovery.Endpoint, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = answer
}

func (d *scriptedDNS) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// DNS that is down at first is waited for; DNS that fails later changes
// nothing.
func TestRequirement09_DNS(t *testing.T) {
	s := newPlainServer(t, answerPlain)
	e, err := discovery.ParseURL(s.URL)
	require.NoError(t, err)
	fail := func() ([]discovery.Endpoint, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "vllm", IsNotFound: true}
	}
	dns := &scriptedDNS{answer: fail}
	c, err := client.New(client.WithResolver(dns), client.WithResolveInterval(20*time.Millisecond),
		client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
	require.NoError(t, err)
	defer c.Close()

	// The second question comes when it is known what became of the first.
	require.Eventually(t, func() bool { return dns.count() > 1 }, 10*time.Second, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	_, err = c.CreateChatCompletion(ctx, question("anyone there?"))
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no such host")

	waiting := make(chan error)
	go func() {
		_, err := c.CreateChatCompletion(t.Context(), question("anyone there?"))
		waiting <- err
	}()
	dns.set(func() ([]discovery.Endpoint, error) { return []discovery.Endpoint{e}, nil })
	require.NoError(t, <-waiting)

	for _, answer := range []func() ([]discovery.Endpoint, error){fail,
		func() ([]discovery.Endpoint, error) { return nil, nil },
		func() ([]discovery.Endpoint, error) { return nil, context.DeadlineExceeded }} {
		dns.set(answer)
		asked := dns.count()
		require.Eventually(t, func() bool { return dns.count() > asked+1 }, 10*time.Second, time.Millisecond)
		_, err = c.CreateChatCompletion(t.Context(), question("still there?"))
		require.NoError(t, err, "the last good set stays")
	}
}

// The client keeps connections for 4 s, so each request meets one that is being
// closed; what has not been answered at all is sent again. How connections are
// reused otherwise is tested in virtual time: connections_test.go.
func TestRequirement10_ServerClosesIdleConnections(t *testing.T) {
	var made atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(answerPlain))
	s.Config.IdleTimeout = time.Millisecond
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := newClient(t, s.URL, client.WithRetries(0))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range 300 {
		<-tick.C
		_, err := c.CreateChatCompletion(t.Context(), question("x"))
		require.NoError(t, err, i)
	}
	require.Greater(t, made.Load(), int64(10), "connections were closed in between")
}

// Each attempt sends the same bytes, with their length and the endpoint's host.
func TestRequirement11_BodyReplay(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 4096, 65_537, 1 << 20} {
		var mu sync.Mutex
		sums, wrong := map[string]int{}, []string(nil)
		handler := func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || r.ContentLength != int64(len(body)) || !strings.HasPrefix(r.Host, "127.0.0.1:") || r.TransferEncoding != nil {
				wrong = append(wrong, fmt.Sprint(err, r.ContentLength, len(body), r.Host, r.TransferEncoding))
			}
			sums[fmt.Sprintf("%x", sha256.Sum256(body))]++
			w.WriteHeader(http.StatusBadGateway)
		}
		c := newClient(t, newPlainServer(t, handler).URL, client.WithEndpoints(newPlainServer(t, handler).URL))
		_, err := c.CreateChatCompletion(t.Context(), question(strings.Repeat("ä<", size/2)))
		require.Error(t, err)
		require.Empty(t, wrong)
		require.Len(t, sums, 1)
		for _, n := range sums {
			require.Equal(t, 4, n)
		}
	}
}

// authority is a private CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert, key, pool}
}

func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestRequirement14_CredentialsAndTLS(t *testing.T) {
	const key = "sk-very-secret"
	t.Run("redirects", func(t *testing.T) {
		other := newPlainServer(t, answerPlain)
		for _, code := range []int{301, 302, 307, 308} {
			s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, code) })
			var log strings.Builder
			c := newClient(t, s.URL, client.WithAPIKey(key), client.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			_, err := c.CreateChatCompletion(t.Context(), question("my prompt"))
			require.ErrorContains(t, err, "redirect")
			require.NotContains(t, err.Error()+log.String(), key)
			require.NotContains(t, err.Error()+log.String(), "my prompt")
		}
		require.Empty(t, other.requests())
	})
	t.Run("TLS by name, dialled by address", func(t *testing.T) {
		ca := newAuthority(t)
		var names sync.Map
		s := httptest.NewUnstartedServer(http.HandlerFunc(answerPlain))
		s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool,
			GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				names.Store(hello.ServerName, true)
				cert := ca.issue(t, "vllm.test")
				return &cert, nil
			}}
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		s.StartTLS()
		defer s.Close()
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		addr := netip.MustParseAddrPort(s.Listener.Addr().String())
		try := func(host string, cfg *tls.Config) error {
			e, err := discovery.ParseURL("https://" + host + ":" + port)
			require.NoError(t, err)
			e.Addr = addr
			dns := &scriptedDNS{answer: func() ([]discovery.Endpoint, error) { return []discovery.Endpoint{e}, nil }}
			c, err := client.New(client.WithResolver(dns), client.WithTLS(cfg), client.WithAPIKey(key),
				client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0), client.WithRetries(0))
			require.NoError(t, err)
			defer c.Close()
			_, err = c.CreateChatCompletion(t.Context(), question("x"))
			return err
		}
		own := []tls.Certificate{ca.issue(t, "client.test")}
		require.NoError(t, try("vllm.test", &tls.Config{RootCAs: ca.pool, Certificates: own}))
		require.NoError(t, try("vllm.test.", &tls.Config{RootCAs: ca.pool, Certificates: own}))
		_, dotted := names.Load("vllm.test.")
		require.False(t, dotted, "the name is sent without its trailing dot")

		var hostname x509.HostnameError
		err := try("other.test", &tls.Config{RootCAs: ca.pool, Certificates: own})
		require.ErrorAs(t, err, &hostname)
		var typed *client.Error
		require.ErrorAs(t, err, &typed)
		require.EqualValues(t, "connect", typed.Phase)
		var unknown x509.UnknownAuthorityError
		require.ErrorAs(t, try("vllm.test", &tls.Config{Certificates: own}), &unknown)
		require.Error(t, try("vllm.test", &tls.Config{RootCAs: ca.pool}), "the engine asks for a client certificate")
	})
	t.Run("metadata addresses", func(t *testing.T) {
		for _, base := range []http.RoundTripper{nil, &http.Transport{DialContext: (&net.Dialer{}).DialContext}} {
			e, err := discovery.ParseURL("http://metadata.test:80")
			require.NoError(t, err)
			e.Addr = netip.MustParseAddrPort("169.254.169.254:80")
			dns := &scriptedDNS{answer: func() ([]discovery.Endpoint, error) { return []discovery.Endpoint{e}, nil }}
			opts := []client.Option{client.WithResolver(dns), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0)}
			if base != nil {
				opts = append(opts, client.WithTransport(base))
			}
			c, err := client.New(opts...)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			_, err = c.CreateChatCompletion(ctx, question("x"))
			cancel()
			c.Close()
			require.Error(t, err)
			require.True(t, errors.Is(err, discovery.ErrAddrRefused) || errors.Is(err, context.DeadlineExceeded), "%v", err)
		}
	})
}

// The salt of a tenant is in the body, and so in the key; the caller cannot
// choose it.
func TestTenantSalt(t *testing.T) {
	var got string
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, rest, _ := strings.Cut(string(body), `"cache_salt":"`)
		got, _, _ = strings.Cut(rest, `"`)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, plainAnswer)
	})
	c := newClient(t, s.URL, client.WithTenantSalt([]byte("0123456789abcdef")))
	salt := func(tenant string, extra map[string]any) string {
		ctx := t.Context()
		if tenant != "" {
			ctx = client.WithTenant(ctx, tenant)
		}
		if extra != nil {
			ctx = client.WithExtraBody(ctx, extra)
		}
		_, err := c.CreateChatCompletion(ctx, question("x"))
		require.NoError(t, err)
		return got
	}
	a := salt("a", nil)
	require.Len(t, a, 43)
	require.Equal(t, a, salt("a", nil))
	require.NotEqual(t, a, salt("b", nil))
	require.Empty(t, salt("", nil))
	forged := salt("b", map[string]any{"cache_salt": a})
	require.NotEqual(t, a, forged)
	require.NotEqual(t, salt("b", nil), forged, "a salt of the caller's separates within the tenant")
	_, err := c.CreateEmbeddings(client.WithTenant(t.Context(), "a"), openai.EmbeddingRequest{Model: "m", Input: "x"})
	require.NoError(t, err)
	require.Equal(t, a, got, "embeddings are salted too")
	_, err = client.New(client.WithEndpoints(s.URL), client.WithTenantSalt([]byte("short")))
	require.ErrorContains(t, err, "WithTenantSalt")
}
