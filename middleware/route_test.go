package middleware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/discovery"
)

func TestRedirectsAreErrors(t *testing.T) {
	for _, code := range []int{301, 302, 303, 304, 307, 308} {
		f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
			resp, err := status(code, "")
			resp.Header.Set("Location", "http://evil.test/")
			return resp, err
		})
		_, err := post(t.Context(), f.chain(f.routing(), RetryOptions{}), chatPath, chat)
		require.ErrorIs(t, err, ErrRedirect)
		require.Equal(t, 1, f.attempts())
		require.Zero(t, f.inFlight())
	}
}

func TestErrorBodiesAreCapped(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
		resp, err := status(400, "")
		resp.Body, resp.ContentLength = io.NopCloser(filler{}), -1
		return resp, err
	})
	resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{}), chatPath, chat)
	require.NoError(t, err)
	body, err := readAll(resp)
	require.NoError(t, err)
	require.Len(t, body, maxErrorBody)
	require.Zero(t, f.inFlight())
}

// vLLM says of a message of a wrong shape once for each kind that it might have been
// what it was. Cut short that is no JSON, and no *openai.APIError.
func TestErrorsThatEchoThePromptAreWhole(t *testing.T) {
	want := `{"error":{"message":"` + strings.Repeat("input was … ", 10_000) + `"}}`
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(400, want) })
	resp, err := post(t.Context(), f.chain(f.routing(), RetryOptions{}), chatPath, chat)
	require.NoError(t, err)
	body, err := readAll(resp)
	require.NoError(t, err)
	require.True(t, body == want, "%d bytes of %d", len(body), len(want))
}

func TestRequestIsAddressedToItsEndpoint(t *testing.T) {
	f := newFakeFleet(t, func(req *http.Request, _ int) (*http.Response, error) {
		require.Equal(t, "engine.test:8000", req.URL.Host)
		require.Equal(t, "engine.test:8000", req.Host)
		return status(200, answerOK)
	})
	r := f.routing()
	r.Header = http.Header{"Authorization": {"Bearer fleet"}}
	r.Lookup = func(id string) (discovery.Endpoint, bool) {
		return discovery.Endpoint{ID: id, URL: &url.URL{Scheme: "http", Host: "engine.test:8000", Path: "/pool"}, Rank: 3}, true
	}
	_, err := post(t.Context(), f.chain(r, RetryOptions{}), chatPath+"?x=1", chat)
	require.NoError(t, err)
	require.Equal(t, "/pool/v1/chat/completions", f.seen[0].path)
	require.Equal(t, "Bearer fleet", f.seen[0].header.Get("Authorization"))
	require.Equal(t, "3", f.seen[0].header.Get("X-Data-Parallel-Rank"))
}

func TestWaitsForTheFirstEndpoint(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
	require.NoError(t, f.router.Set(nil))
	r := f.routing()
	r.Wait = func(context.Context) error { return f.router.Set([]affinity.Endpoint{{ID: "late"}}) }
	resp, err := post(t.Context(), f.chain(r, RetryOptions{}), chatPath, chat)
	require.NoError(t, err)
	require.Equal(t, "late", resp.Header.Get(HeaderEndpoint))

	require.NoError(t, f.router.Set(nil))
	r.Wait = func(context.Context) error { return errors.New("no such host") }
	_, err = post(t.Context(), f.chain(r, RetryOptions{}), chatPath, chat)
	require.ErrorContains(t, err, "no such host")
	r.Wait = nil
	_, err = post(t.Context(), f.chain(r, RetryOptions{}), chatPath, chat)
	require.ErrorIs(t, err, affinity.ErrNoEndpoints)
}

// An endpoint that leaves between the pick and the look-up is passed over.
func TestEndpointThatJustLeft(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
	var unasked []affinity.Outcome
	router, err := affinity.New(affinity.Options{OnRelease: func(r affinity.Released) {
		if r.Outcome.Status == 0 {
			unasked = append(unasked, r.Outcome)
		}
	}})
	require.NoError(t, err)
	require.NoError(t, router.Set([]affinity.Endpoint{{ID: "a"}, {ID: "b"}}))
	f.router = router
	r := f.routing()
	gone := 0
	r.Lookup = func(id string) (discovery.Endpoint, bool) {
		if gone++; gone == 1 {
			return discovery.Endpoint{}, false
		}
		return f.lookup(id)
	}
	_, err = post(t.Context(), f.chain(r, RetryOptions{}), chatPath, chat)
	require.NoError(t, err)
	require.Len(t, unasked, 1)
	require.NotEmpty(t, unasked[0].Boundaries, "should it come back, it does not have them")
	require.NoError(t, unasked[0].Err)
	r.Lookup = func(string) (discovery.Endpoint, bool) { return discovery.Endpoint{}, false }
	_, err = post(t.Context(), f.chain(r, RetryOptions{}), chatPath, chat)
	require.ErrorIs(t, err, affinity.ErrNoEndpoints)
	require.Zero(t, f.inFlight())
}

// Requests of one conversation go to one endpoint, those of others elsewhere
// too; a session, a tenant and a cache key change the key as they should.
func TestPromptsHaveAHome(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
	rt := f.chain(f.routing(), RetryOptions{})
	at := func(ctx context.Context, body string) string {
		resp, err := post(ctx, rt, chatPath, body)
		require.NoError(t, err)
		return resp.Header.Get(HeaderEndpoint)
	}
	turn := func(user, rest string) string {
		return `{"model":"m","messages":[{"role":"user","content":"` + user + `"}` + rest + `]}`
	}
	homes := map[string]bool{}
	for i := range 64 {
		user := strings.Repeat("x", i)
		home := at(t.Context(), turn(user, ""))
		homes[home] = true
		require.Equal(t, home, at(t.Context(), turn(user, `,{"role":"assistant","content":"a"},{"role":"user","content":"b"}`)))
	}
	require.Len(t, homes, 3)

	session := WithHints(t.Context(), Hints{Session: "s"})
	require.Equal(t, at(session, turn("one", "")), at(session, turn("two", "")))
	tenants := map[string]bool{}
	for i := range 64 {
		tenants[at(WithHints(t.Context(), Hints{Tenant: strings.Repeat("t", i+1)}), turn("same", ""))] = true
	}
	require.Len(t, tenants, 3)
}

// A prompt that an endpoint has refused is not taken to be cached there.
func TestRefusedPromptsAreNotForeseen(t *testing.T) {
	f := newFakeFleet(t, func(_ *http.Request, n int) (*http.Response, error) {
		if n == 1 {
			return status(503, "")
		}
		return status(200, answerOK)
	})
	require.NoError(t, f.router.Set([]affinity.Endpoint{{ID: "a"}}))
	rt := f.chain(f.routing(), RetryOptions{Max: -1})
	foreseen := func() uint64 {
		_, err := post(t.Context(), rt, chatPath, chat)
		require.NoError(t, err)
		return f.router.Stats()[0].ForeseenTokens
	}
	foreseen()
	require.Zero(t, foreseen())
	require.NotZero(t, foreseen(), "but what it has answered is")
}

func TestExtraBodyReachesTheWire(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
	ctx := WithHints(t.Context(), Hints{ExtraBody: map[string]any{"cache_salt": "s", "priority": 1}})
	ctx = WithHints(ctx, Hints{ExtraBody: map[string]any{"priority": 2}, Session: "x"})
	_, err := post(ctx, f.chain(f.routing(), RetryOptions{}), chatPath, chat)
	require.NoError(t, err)
	require.Contains(t, f.seen[0].body, `"cache_salt":"s"`)
	require.Contains(t, f.seen[0].body, `"priority":2`)

	_, err = post(WithHints(t.Context(), Hints{ExtraBody: map[string]any{"f": func() {}}}),
		f.chain(f.routing(), RetryOptions{}), chatPath, chat)
	require.ErrorContains(t, err, `"f"`)
}

// Everything that is not an inference request is passed on as it comes.
func TestOtherRequestsPass(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) {
		resp, err := status(200, "")
		resp.Header.Set("Content-Type", "audio/mpeg")
		resp.Body = io.NopCloser(strings.NewReader("sound"))
		return resp, err
	})
	rt := f.chain(f.routing(), RetryOptions{})
	resp, err := post(t.Context(), rt, "http://fleet.test/v1/audio/speech", `{"b":1, "a":2}`)
	require.NoError(t, err)
	require.Equal(t, 1, f.inFlight())
	body, err := readAll(resp)
	require.NoError(t, err)
	require.Equal(t, "sound", body)
	require.Zero(t, f.inFlight())
	require.Equal(t, `{"b":1, "a":2}`, f.seen[0].body)
}

// What names a response goes to the engine that made it.
func TestResponsesAreSticky(t *testing.T) {
	f := newFakeFleet(t, func(req *http.Request, n int) (*http.Response, error) {
		return status(200, `{"id":"resp_`+strings.TrimSuffix(req.URL.Host, ".test")+`","object":"response","usage":{"input_tokens":1}}`)
	})
	rt := f.chain(f.routing(), RetryOptions{})
	const path = "http://fleet.test/v1/responses"
	for i := range 20 {
		resp, err := post(t.Context(), rt, path, `{"model":"m","input":"`+strings.Repeat("x", i)+`"}`)
		require.NoError(t, err)
		home := resp.Header.Get(HeaderEndpoint)
		resp, err = post(t.Context(), rt, path, `{"model":"m","input":"and then","previous_response_id":"resp_`+home+`"}`)
		require.NoError(t, err)
		require.Equal(t, home, resp.Header.Get(HeaderEndpoint))
		req, err := http.NewRequest(http.MethodGet, path+"/resp_"+home+"/input_items", nil)
		require.NoError(t, err)
		resp, err = rt.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, home, resp.Header.Get(HeaderEndpoint))
		_, err = readAll(resp)
		require.NoError(t, err)
	}
	_, err := post(t.Context(), rt, path, `{"model":"m","input":"and then","previous_response_id":"resp_unheard"}`)
	var unknown *UnknownResponseError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "resp_unheard", unknown.ID)

	require.NoError(t, f.router.Set([]affinity.Endpoint{{ID: "b"}, {ID: "c"}}))
	_, err = post(t.Context(), rt, path, `{"model":"m","input":"and then","previous_response_id":"resp_a"}`)
	require.ErrorIs(t, err, affinity.ErrStickyGone)
	require.Zero(t, f.inFlight())
}

func TestRememberedResponsesAreBounded(t *testing.T) {
	var r responses
	for i := range 3 * maxResponses {
		r.remember(fmt.Sprint(i), "a")
	}
	require.Len(t, r.places, maxResponses)
	_, ok := r.place(fmt.Sprint(3*maxResponses - 1))
	require.True(t, ok)
	_, ok = r.place(fmt.Sprint(2*maxResponses - 1))
	require.False(t, ok)
}

// The strategy fixed-prefix sees the first characters of the message text, and
// nothing else of the request.
func TestFixedPrefixHasItsCharacters(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
	require.NoError(t, f.router.SetStrategy(affinity.FixedPrefix))
	rt := f.chain(f.routing(), RetryOptions{})
	at := func(text, rest string) string {
		resp, err := post(t.Context(), rt, chatPath, `{"model":"m","messages":[{"role":"user","content":"`+text+`"}]`+rest+`}`)
		require.NoError(t, err)
		return resp.Header.Get(HeaderEndpoint)
	}
	same := strings.Repeat("é", f.router.FixedPrefix().Length)
	home := at(same, "")
	homes := map[string]bool{}
	for i := range 32 {
		require.Equal(t, home, at(same+strings.Repeat("x", i), `,"tools":[{"type":"function","function":{"name":"t`+fmt.Sprint(i)+`"}}]`))
		homes[at(fmt.Sprint(i)+same, "")] = true
	}
	require.Len(t, homes, 3)
}

// The words of an engine do not decide what an error is.
func TestEngineCannotPoseAsTheNetwork(t *testing.T) {
	require.False(t, beforeSending(&EngineError{Message: "net/http: TLS handshake timeout"}))
	require.True(t, beforeSending(&net.OpError{Op: "dial", Err: errors.New("refused")}))
}

// The rule of SageMaker has ids of up to 64 ASCII characters. Whatever carries
// one that is longer is refused before anything is sent, under that rule only.
func TestFixedPrefixRefusesItsIDs(t *testing.T) {
	long := strings.Repeat("x", 65)
	inBody := `{"model":"m","prompt_cache_key":"` + long + `","messages":[{"role":"user","content":"hello"}]}`
	for name, tt := range map[string]struct {
		hints   Hints
		body    string
		refused bool
	}{
		"long cache key":            {Hints{CacheKey: long}, chat, true},
		"not ASCII":                 {Hints{CacheKey: "schlüssel"}, chat, true},
		"long in the body":          {Hints{}, inBody, true},
		"the hint takes precedence": {Hints{CacheKey: "short"}, inBody, false},
		"sessions and tenants":      {Hints{Session: long, Tenant: long + "ü"}, chat, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
			ctx := WithHints(t.Context(), tt.hints)
			rt := f.chain(f.routing(), RetryOptions{})
			_, err := post(ctx, rt, chatPath, tt.body)
			require.NoError(t, err, "the default strategy takes any id")
			require.NoError(t, f.router.SetStrategy(affinity.FixedPrefix))
			_, err = post(ctx, rt, chatPath, tt.body)
			if !tt.refused {
				require.NoError(t, err)
				return
			}
			var failed *Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, PhasePick, failed.Phase)
			require.ErrorIs(t, err, affinity.ErrRoutingID)
			require.ErrorContains(t, err, "hash a longer one")
			require.NotContains(t, err.Error(), "xxx", "an id is not for logs")
			require.Equal(t, 1, f.attempts(), "nothing is sent")
			require.Zero(t, f.inFlight())
		})
	}
}

func TestStrategyOfACall(t *testing.T) {
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return status(200, answerOK) })
	r := f.routing()
	var root uint64
	r.Strategy = func(req *affinity.Request) affinity.Strategy {
		root = req.Root
		return affinity.Random
	}
	var done Done
	ctx := WithTrace(t.Context(), &Trace{Done: func(d Done) { done = d }})
	resp, err := post(ctx, f.chain(r, RetryOptions{}), chatPath, chat)
	require.NoError(t, err)
	require.Equal(t, "random", resp.Header.Get(HeaderStrategy))
	_, err = readAll(resp)
	require.NoError(t, err)
	require.Equal(t, "random", done.Strategy)
	require.Equal(t, "random", done.Reason)
	require.NotZero(t, root)
}
