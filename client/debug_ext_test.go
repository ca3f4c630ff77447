package client_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/discovery"
)

// fleetOf resolves to n endpoints that nothing listens at.
type fleetOf struct {
	n    int
	name func(int) string
}

func (f fleetOf) Resolve(context.Context) (all []discovery.Endpoint, err error) {
	for i := range f.n {
		all = append(all, discovery.Endpoint{ID: f.name(i), Rank: discovery.NoRank,
			URL: &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", 1+i)}})
	}
	if f.n == 0 {
		err = errors.New("nobody there")
	}
	return all, err
}

func plainName(i int) string { return fmt.Sprintf("vllm-%03d.vllm.default.svc.cluster.local:8000", i) }

func quietClient(t testing.TB, f fleetOf, opts ...client.Option) *client.Client {
	c, err := client.New(append(opts, client.WithResolver(f), client.WithHealthChecks(0), client.WithModelChecks(0), client.WithMetrics(0))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.Eventually(t, func() bool { return len(c.Stats().Endpoints) == f.n }, 10*time.Second, time.Millisecond)
	return c
}

func debugGet(t testing.TB, c *client.Client, target string, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	c.DebugHandler().ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w
}

// wellFormed requires that every element of a page is closed where it should
// be. The page is written so that it is XML as well, whose rules are stricter.
func wellFormed(t testing.TB, page string) {
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	ids := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			require.NotEqual(t, "script", e.Name.Local)
			for _, a := range e.Attr {
				require.NotContains(t, []string{"style", "onclick", "onload", "src"}, a.Name.Local)
				if a.Name.Local == "href" {
					require.True(t, strings.HasPrefix(a.Value, "?"), "nothing from elsewhere: %s", a.Value)
				}
			}
			ids++
		}
	}
	require.Greater(t, ids, 20)
	require.False(t, strings.Contains(page, "ZgotmplZ"), "a value that html/template refuses to put there")
	require.False(t, strings.Contains(page, "NaN"))
}

func TestDebugPageOfFleetsOfAllSizes(t *testing.T) {
	for _, n := range []int{0, 1, 256} {
		c := quietClient(t, fleetOf{n, plainName})
		w := debugGet(t, c, "/", "text/html,application/xhtml+xml,application/json;q=0.9")
		page := w.Body.String()
		wellFormed(t, page)
		require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, n, strings.Count(page, `<th scope="row"><code>`))
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-")
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))

		var view struct {
			Endpoints   []struct{ ID string }
			Prefixes    []any `json:"hottest_prefixes"`
			Divergences []any
			HitRate     struct{ Of uint64 } `json:"hit_rate"`
			Advice      struct{ Verdict string }
		}
		for target, accept := range map[string]string{"/?format=json": "text/html", "/": "application/json"} {
			w := debugGet(t, c, target, accept)
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &view))
			require.Len(t, view.Endpoints, n)
			require.NotNil(t, view.Prefixes, "an empty list, not null")
			require.NotNil(t, view.Divergences)
			require.Equal(t, "too little data", view.Advice.Verdict)
		}
	}
}

func TestDebugPageEscapesNames(t *testing.T) {
	const evil = `<script>alert("x")</script>&amp;'`
	s := newPlainServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := json.Marshal(map[string]any{"object": "list", "data": []any{map[string]any{"id": evil, "object": "model"}}})
		_, _ = w.Write(body)
	})
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	named, err := discovery.List(discovery.Endpoint{ID: "node " + evil, URL: u, Rank: discovery.NoRank})
	require.NoError(t, err)
	c, err := client.New(client.WithResolver(named))
	require.NoError(t, err)
	defer c.Close()
	require.Eventually(t, func() bool { return len(c.Stats().Endpoints) == 1 && c.Stats().Endpoints[0].Models != nil }, 10*time.Second, time.Millisecond)
	page := debugGet(t, c, "/", "").Body.String()
	wellFormed(t, page)
	require.False(t, strings.Contains(page, "<script"))
	require.Equal(t, 2, strings.Count(page, "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;&amp;amp;&#39;"), "an identity and a model")
	var view struct{ Endpoints []struct{ ID string } }
	require.NoError(t, json.Unmarshal(debugGet(t, c, "/?format=json", "").Body.Bytes(), &view))
	require.Equal(t, "node "+evil, view.Endpoints[0].ID)
}

// busyDebug is a client with something of everything to show.
func busyDebug(t testing.TB) *client.Client {
	fleet := fleettest.New(4, fleettest.Config{TimeScale: 200})
	t.Cleanup(fleet.Close)
	c, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithExperiment(client.Random, .5))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.Ready(t.Context()))
	ask := func(ctx context.Context, messages ...openai.ChatCompletionMessage) {
		stream, err := c.CreateChatCompletionStream(ctx, openai.ChatCompletionRequest{Model: "sim-70b", Messages: messages, MaxCompletionTokens: 4})
		require.NoError(t, err)
		for err == nil {
			_, err = stream.Recv()
		}
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, stream.Close())
	}
	system := openai.ChatCompletionMessage{Role: "system", Content: "Secret instructions. " + strings.Repeat("Be exact. ", 200)}
	for i := range 60 {
		messages := []openai.ChatCompletionMessage{system}
		for turn := range 4 {
			messages = append(messages,
				openai.ChatCompletionMessage{Role: "user", Content: fmt.Sprintf("Secret question %d.%d ", i, turn) + strings.Repeat("and more, ", 60)})
			ask(client.WithSession(t.Context(), fmt.Sprint("secret session ", i)), messages...)
			messages = append(messages, openai.ChatCompletionMessage{Role: "assistant", Content: "Secret answer."})
		}
	}
	ctx := client.WithSession(t.Context(), "secret session that diverges")
	dated := system
	for turn := range 3 { // the system text changes
		dated.Content = fmt.Sprintf("It is 12:0%d. ", turn) + system.Content
		ask(ctx, dated, openai.ChatCompletionMessage{Role: "user", Content: "Secret?"})
	}
	return c
}

func TestDebugPageOfABusyClient(t *testing.T) {
	c := busyDebug(t)
	w := debugGet(t, c, "/?refresh=5", "")
	page := w.Body.String()
	wellFormed(t, page)
	for _, want := range []string{`http-equiv="refresh" content="5"`, "Experiment", "system text, message 0", "First token P50"} {
		require.True(t, strings.Contains(page, want), want) // not Contains, which would print the page
	}
	text := debugGet(t, c, "/?format=json", "").Body.String()
	for _, out := range []string{page, text} {
		require.False(t, strings.Contains(out, "ecret"), "no text of prompts, answers or sessions")
		require.False(t, strings.Contains(out, "Be exact"))
	}
	var view struct {
		Calls      int
		HitRate    struct{ Tokens, Of int } `json:"hit_rate"`
		Foreseen   struct{ Tokens, Of int } `json:"foreseen_hit_rate"`
		FirstToken struct{ Count int }      `json:"first_token"`
		Prefixes   []struct {
			Hash                            string
			Calls, Bytes, Tokens, Instances int
		} `json:"hottest_prefixes"`
		Divergences []struct {
			Part    string
			Message int
			Shared  int `json:"shared_bytes"`
			Lost    int `json:"lost_bytes"`
		}
		Experiment struct{ Control struct{ Calls int } }
		Advice     struct {
			Verdict   string
			Estimates []any
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &view))
	require.Equal(t, 243, view.Calls)
	require.Equal(t, 243, view.FirstToken.Count)
	require.Positive(t, view.HitRate.Tokens)
	require.Positive(t, view.Foreseen.Of)
	require.Less(t, view.Foreseen.Of, view.HitRate.Of, "of one arm only")
	require.Positive(t, view.Experiment.Control.Calls)
	require.Len(t, view.Advice.Estimates, 9)
	require.Len(t, view.Divergences, 2)
	require.Equal(t, "system", view.Divergences[0].Part)
	require.Zero(t, view.Divergences[0].Message)
	require.Greater(t, view.Divergences[0].Lost, 2000)
	require.Len(t, view.Prefixes, 12)
	require.Len(t, view.Prefixes[0].Hash, 16)
	require.GreaterOrEqual(t, view.Prefixes[0].Calls, 240, "the system text that all share")
	require.InDelta(t, 2021, view.Prefixes[0].Bytes, 60)
	require.Equal(t, 4, view.Prefixes[0].Instances)
}

func TestDebugPageOnlyAnswersReads(t *testing.T) {
	c := quietClient(t, fleetOf{1, plainName})
	w := httptest.NewRecorder()
	c.DebugHandler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x")))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	for _, refresh := range []string{"0", "-1", "x", "99999", `5"><script>`} {
		page := debugGet(t, c, "/?refresh="+url.QueryEscape(refresh), "").Body.String()
		require.NotContains(t, page, "http-equiv", refresh)
		wellFormed(t, page)
	}
}
