package client_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
)

// What SDKs do otherwise than OpenAI's: Anthropic's adds /v1 to the base URL and
// has the key in another header, which must not be what the fleet gets when the
// fleet's own is known.
func TestRequestsOfOtherSDKs(t *testing.T) {
	for _, tt := range []struct {
		name, path, authorization, apiKey string
		options                           []client.Option
		wantPath, wantAuthorization       string
		wantAPIKey                        string
	}{
		{name: "OpenAI's", path: "/chat/completions", authorization: "Bearer own",
			wantPath: "/v1/chat/completions", wantAuthorization: "Bearer own"},
		{name: "OpenAI's, the fleet's key", path: "/chat/completions", authorization: "Bearer own", options: []client.Option{client.WithAPIKey("fleet")},
			wantPath: "/v1/chat/completions", wantAuthorization: "Bearer fleet"},
		{name: "Anthropic's", path: "/v1/messages", apiKey: "own",
			wantPath: "/v1/messages", wantAuthorization: "Bearer own", wantAPIKey: "own"},
		{name: "Anthropic's, the fleet's key", path: "/v1/messages", apiKey: "own", options: []client.Option{client.WithAPIKey("fleet")},
			wantPath: "/v1/messages", wantAuthorization: "Bearer fleet"},
		{name: "Anthropic's with a token", path: "/v1/messages", authorization: "Bearer token", apiKey: "own",
			wantPath: "/v1/messages", wantAuthorization: "Bearer token", wantAPIKey: "own"},
		{name: "escaped", path: "/v1/models/a%2Fb",
			wantPath: "/v1/models/a%2Fb"},
		{name: "v1 further down", path: "/files/v1/v1/x",
			wantPath: "/v1/files/v1/v1/x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got *http.Request
			s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
				got = r
				w.Header().Set("Content-Type", "application/json")
				w.Write([]byte("{}"))
			})
			options := append(tt.options, client.WithEndpoints(s.URL), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
			c, err := client.New(options...)
			require.NoError(t, err)
			defer c.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.BaseURL()+tt.path, strings.NewReader("{}"))
			require.NoError(t, err)
			set := func(name, value string) {
				if value != "" {
					req.Header.Set(name, value)
				}
			}
			set("Authorization", tt.authorization)
			set("X-Api-Key", tt.apiKey)
			before := req.Clone(t.Context())
			resp, err := c.HTTPClient().Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, tt.wantPath, got.URL.EscapedPath())
			require.Equal(t, tt.wantAuthorization, got.Header.Get("Authorization"))
			require.Equal(t, tt.wantAPIKey, got.Header.Get("X-Api-Key"))
			require.Equal(t, before.URL, req.URL, "the caller's request is its own")
			require.Equal(t, before.Header, req.Header)
		})
	}
}

// Another host gets what the SDK sends, and nothing of the fleet's.
func TestOtherHostsGetWhatTheSDKSends(t *testing.T) {
	var got *http.Request
	other := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) { got = r })
	c, err := client.New(client.WithEndpoints("http://127.0.0.1:1"), client.WithAPIKey("fleet"), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))
	require.NoError(t, err)
	defer c.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, other.URL+"/v1/v1/messages", strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("X-Api-Key", "own")
	resp, err := c.HTTPClient().Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, "/v1/v1/messages", got.URL.Path)
	require.Equal(t, "own", got.Header.Get("X-Api-Key"))
	require.Empty(t, got.Header.Get("Authorization"))
}
