package client_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
)

// placeOf asks once more and returns where the answer came from.
func placeOf(t *testing.T, s *client.Session, model string) string {
	t.Helper()
	require.NoError(t, s.Append(user("and now?")))
	resp, err := s.Complete(t.Context(), openai.ChatCompletionRequest{Model: model, MaxCompletionTokens: 2})
	require.NoError(t, err)
	return resp.Header().Get("X-Prefixwise-Endpoint")
}

// newFleet returns a simulated fleet and what makes a client for it. A
// conversation must be long for its instance to be worth more than an idle one.
func newFleet(t *testing.T, n int) (*fleettest.Fleet, func(opts ...client.Option) *client.Client) {
	fleet := fleettest.New(n, fleettest.Config{Model: "sim", TimeScale: 100})
	t.Cleanup(fleet.Close)
	return fleet, func(opts ...client.Option) *client.Client {
		c, err := client.New(append([]client.Option{client.WithEndpoints(fleet.URLs()...)}, opts...)...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		require.NoError(t, c.Ready(t.Context()))
		return c
	}
}

// Branches go where their parent is, whatever they are called. The strategy is
// one that knows nothing but the key while the fleet is idle.
func TestSessionForkGoesHome(t *testing.T) {
	_, connect := newFleet(t, 8)
	c := connect(client.WithStrategy(client.BoundedLoad))
	for i := range 4 {
		s := c.Session(fmt.Sprint("parent ", i))
		require.NoError(t, s.Append(system("head"), user("hello")))
		home := placeOf(t, s, "sim")
		for k := range 3 {
			f := s.Fork(fmt.Sprintf("branch %d of %d", k, i))
			require.Same(t, f, c.Session(f.ID()))
			require.Equal(t, home, placeOf(t, f, "sim"))
			require.Equal(t, home, placeOf(t, f.Fork(""), "sim"), "a branch of a branch")
		}
	}
}

// What is said in a branch stays there.
func TestSessionForkIsApart(t *testing.T) {
	s := newClient(t, "http://127.0.0.1:1").Session("")
	for i := range 9 { // at some of these lengths there is room behind the last message
		require.NoError(t, s.Append(user(fmt.Sprint(i))))
		one, two := s.Fork(""), s.Fork("")
		require.Equal(t, s.Messages(), one.Messages())
		require.NoError(t, one.Append(user("one")))
		require.NoError(t, two.Append(user("two")))
		require.NoError(t, s.Append(user("parent")))
		require.Equal(t, "one", one.Messages()[len(one.Messages())-1].Content)
		require.Equal(t, "two", two.Messages()[len(two.Messages())-1].Content)
		require.Equal(t, "parent", s.Messages()[len(s.Messages())-1].Content)
	}
}

// An open batch is forked with what is there of it.
func TestSessionForkOfABatch(t *testing.T) {
	engine := newScripted(t)
	engine.then(plain(calling("a", "b")))
	s := newClient(t, engine.url).Session("")
	require.NoError(t, s.Append(user("go")))
	_, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.NoError(t, s.Result("a", "1"))
	f := s.Fork("")
	require.NoError(t, f.Result("b", "the fork's"))
	require.NoError(t, s.Result("b", "the parent's"))
	require.Equal(t, "the fork's", f.Messages()[3].Content)
	require.Equal(t, "the parent's", s.Messages()[3].Content)
}

// A compacted fork has little in common with its parent any more and gets a home
// of its own; a compacted session stays.
func TestSessionForkCompacted(t *testing.T) {
	engine := newScripted(t)
	s := newClient(t, engine.url).Session("parent")
	require.NoError(t, s.Append(system("head"), user("go")))
	_, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	f := s.Fork("child")
	for _, one := range []*client.Session{s, f} {
		_, err = one.Compact(0)
		require.NoError(t, err)
	}
	routing := func(s *client.Session) (r struct{ Key, Placement string }) {
		data, err := json.Marshal(s)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &r))
		return r
	}
	require.Empty(t, routing(f))
	require.NotEmpty(t, routing(s).Placement)
	require.Equal(t, "parent", routing(s.Fork("")).Key)
	require.Equal(t, routing(s).Placement, routing(s.Fork("")).Placement)
}

func TestSessionCompact(t *testing.T) {
	engine := newScripted(t)
	c, warnings, _ := watched(t, engine)
	engine.then(plain(`{"role":"assistant","content":"hello"}`), plain(calling("a", "b")), plain(`{"role":"assistant","content":"done"}`))
	s := c.Session("")
	story := strings.Repeat("long ", 100)
	require.NoError(t, s.Append(system("head"), user(story)))
	_, err := s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.NoError(t, s.Append(user("find it")))
	_, err = s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.NoError(t, s.Append(
		openai.ChatCompletionMessage{Role: "tool", ToolCallID: "a", Content: "1"},
		openai.ChatCompletionMessage{Role: "tool", ToolCallID: "b", Content: "2"}))
	_, err = s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.Len(t, s.Messages(), 8)

	same, err := s.Compact(100)
	require.NoError(t, err)
	require.Equal(t, client.Compaction{Kept: 8}, same)

	// The second result alone would have no call: the batch is kept whole.
	got, err := s.Compact(2, user("there was a story"))
	require.NoError(t, err)
	require.Equal(t, 1+4, got.Kept)
	require.Equal(t, 3, got.Removed)
	require.Equal(t, 1, got.Added)
	require.Positive(t, got.KeptBytes)
	require.Greater(t, got.LostBytes, len(story))
	require.Greater(t, got.NewBytes, len("there was a story"))
	require.Less(t, got.NewBytes, len(story))
	require.Positive(t, got.LostTokens)
	require.Less(t, got.LostTokens, 100)
	roles := ""
	for _, m := range s.Messages() {
		roles += m.Role + " "
	}
	require.Equal(t, "system user assistant tool tool assistant ", roles)
	require.NoError(t, s.Append(user("on")))
	_, err = s.Complete(t.Context(), anyModel)
	require.NoError(t, err)
	require.Empty(t, *warnings, "it was meant")

	got, err = s.Compact(0)
	require.NoError(t, err)
	require.Equal(t, client.Compaction{Kept: 1, Removed: 7}, client.Compaction{Kept: got.Kept, Removed: got.Removed})
	require.Len(t, s.Messages(), 1)
	_, err = s.Compact(0, openai.ChatCompletionMessage{Role: "tool", ToolCallID: "x"})
	require.Error(t, err)
	require.Len(t, s.Messages(), 1)
}
