package middleware

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
)

// An endpoint that has told what came from its cache, and then does not, means
// nothing: vLLM leaves out a zero. One that has never told means that it does
// not say.
func TestLeftOutCachedTokens(t *testing.T) {
	const some = `"usage":{"prompt_tokens":40,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":32}}`
	const none = `"usage":{"prompt_tokens":40,"completion_tokens":2,"prompt_tokens_details":null}`
	plain := func(usage string) (*http.Response, error) {
		return status(200, `{"choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}],`+usage+`}`)
	}
	streamed := func(usage string) (*http.Response, error) {
		return events(hello + stop + `data: {"choices":[],` + usage + "}\n\n" + done)
	}
	var answer func() (*http.Response, error)
	f := newFakeFleet(t, func(*http.Request, int) (*http.Response, error) { return answer() })
	rt := f.chain(f.routing(), RetryOptions{Max: -1})
	cached := func(path, body string, a func() (*http.Response, error)) int {
		answer = a
		last := -2
		ctx := WithTrace(t.Context(), &Trace{Done: func(d Done) { last = d.CachedTokens }})
		if resp, err := post(ctx, rt, path, body); err == nil {
			_, _ = readAll(resp)
		}
		return last
	}
	require.NoError(t, f.router.Set([]affinity.Endpoint{{ID: "a"}}))
	require.Equal(t, -1, cached(chatPath, chat, func() (*http.Response, error) { return plain(none) }))
	require.Equal(t, -1, cached(chatPath, chatStream, func() (*http.Response, error) { return streamed(none) }))
	require.Equal(t, 32, cached(chatPath, chatStream, func() (*http.Response, error) { return streamed(some) }))
	require.Equal(t, 0, cached(chatPath, chat, func() (*http.Response, error) { return plain(none) }))
	require.Equal(t, 0, cached(chatPath, chatStream, func() (*http.Response, error) { return streamed(none) }))
	require.Equal(t, 32, cached(chatPath, chat, func() (*http.Response, error) { return plain(some) }))

	require.Equal(t, -1, cached(chatPath, chat, func() (*http.Response, error) { return plain(`"usage":null`) }), "no usage at all")
	require.Equal(t, -1, cached(chatPath, chat, func() (*http.Response, error) { return status(400, `{}`) }))
	require.Equal(t, -1, cached(chatPath, chatStream, func() (*http.Response, error) {
		return eventsFrom(cut(`data: {"choices":[{"index":0,"delta":{"content":"x"}}],` + none + "}\n\n"))
	}), "an answer that breaks off may have told it at its end")
	require.Equal(t, -1, cached("http://fleet.test/v1/embeddings", `{"model":"m","input":"hello"}`, func() (*http.Response, error) {
		return status(200, `{"data":[],`+none+`}`)
	}), "another API may not tell it at all")

	var sum, prompt uint64
	for _, e := range f.router.Stats() {
		sum, prompt = sum+e.CachedTokens, prompt+e.PromptTokens
	}
	require.EqualValues(t, 64, sum)
	require.EqualValues(t, 160, prompt, "four answers of 40 tokens are known")
}

func TestTellersAreBounded(t *testing.T) {
	var all tellers
	for i := range 3 * maxTellers {
		all.complete(fmt.Sprint(i), canon.Chat, usage{prompt: 1, cached: 0})
		require.LessOrEqual(t, len(all.apis), maxTellers)
	}
	require.Zero(t, all.complete(fmt.Sprint(3*maxTellers-1), canon.Chat, usage{prompt: 1, cached: -1}).cached)
	require.Equal(t, -1, all.complete("other", canon.Chat, usage{prompt: 1, cached: -1}).cached)
}
