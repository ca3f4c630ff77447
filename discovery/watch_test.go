package discovery

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// engine is a loopback server that answers as an engine does.
func engine(t *testing.T, models string) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(models))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestWatchStaticOnSockets(t *testing.T) {
	a := engine(t, `{"object":"list","data":[{"id":"m"},{"id":"adapter"}]}`)
	fleet, err := Static(a.URL + "/v1/")
	require.NoError(t, err)
	seen := make(chan []Member, 16)
	w, err := Watch(Options{Resolvers: []Resolver{fleet}, OnChange: func(ms []Member) { seen <- ms }})
	require.NoError(t, err)
	defer w.Close()
	first := <-seen
	require.Equal(t, a.URL, first[0].ID)
	require.NoError(t, w.Ready(t.Context()))
	for ms := range seen {
		if ms[0].Health == Healthy && ms[0].Models != nil {
			require.Equal(t, []string{"adapter", "m"}, ms[0].Models)
			break
		}
	}
}
