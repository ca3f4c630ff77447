package client

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/middleware"
)

// prompt is a call of the session "s" that has ended.
func prompt(t *testing.T, at time.Time, root map[string]any) *middleware.Done {
	body, err := json.Marshal(root)
	require.NoError(t, err)
	r, err := canon.Canonicalize(canon.Chat, body)
	require.NoError(t, err)
	return &middleware.Done{API: canon.Chat, Start: at, Total: time.Second, Session: "s", Endpoint: "here",
		Head: r.Head, Root: r.Root, Boundaries: r.Boundaries}
}

func talk(texts ...string) []message {
	roles := []string{"user", "assistant"}
	all := []message{{"system", "Be brief."}}
	for i, text := range texts {
		all = append(all, message{roles[i%2], text})
	}
	return all
}

func TestDivergencesOfAConversation(t *testing.T) {
	tools := func(names ...string) (all []any) {
		for _, n := range names {
			all = append(all, map[string]any{"type": "function", "function": map[string]any{"name": n}})
		}
		return all
	}
	base := map[string]any{"model": "m", "tools": tools("a", "b"), "messages": talk("one", "yes", "two")}
	with := func(name string, value any) map[string]any {
		changed := map[string]any{}
		for k, v := range base {
			changed[k] = v
		}
		changed[name] = value
		return changed
	}
	other := talk("one", "yes", "two")
	other[0].Content = "It is noon. Be brief."
	tests := map[string]struct {
		next    map[string]any
		part    string
		message int
	}{
		"the same again":      {base, "", 0},
		"goes on":             {with("messages", talk("one", "yes", "two", "no", "three")), "", 0},
		"goes back":           {with("messages", talk("one")), "", 0},
		"last asked anew":     {with("messages", talk("one", "yes", "too")), "", 0},
		"went another way":    {with("messages", talk("one", "yes", "too", "no", "three")), "turn", 3},
		"history changed":     {with("messages", talk("one", "Yes.", "two", "no", "three")), "turn", 2},
		"system text changed": {with("messages", other), "system", 0},
		"tools changed":       {with("tools", tools("a")), "tools", -1},
		"tools reordered":     {with("tools", tools("b", "a")), "", 0}, // canonicalization mends that
		"model changed":       {with("model", "n"), "head-fields", -1},
		"temperature changed": {with("temperature", .3), "", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var h history
			start := time.Unix(1000, 0)
			h.add(prompt(t, start, base))
			h.add(prompt(t, start.Add(time.Minute), tt.next))
			got := h.divergences()
			if tt.part == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Equal(t, tt.part, got[0].Part)
			require.Equal(t, tt.message, got[0].Message)
			require.Equal(t, "here", got[0].Endpoint)
			require.Positive(t, got[0].Lost)
		})
	}
}

func TestDivergenceCountsBytes(t *testing.T) {
	chain := func(hashes ...uint64) (all []canon.Boundary) {
		for i, h := range hashes {
			all = append(all, canon.Boundary{Hash: h, Offset: 100 * (i + 1), Kind: canon.Turn, Message: i})
		}
		return all
	}
	d, parts := parting(chain(1, 2, 3, 4), chain(1, 2, 13, 14, 15))
	require.True(t, parts)
	require.Equal(t, divergence{Part: "turn", Message: 2, Shared: 200, Lost: 200}, d)
}

// Calls of one conversation that overlap are branches of it.
func TestOverlappingCallsDoNotDiverge(t *testing.T) {
	var h history
	start := time.Unix(1000, 0)
	h.add(prompt(t, start, map[string]any{"model": "m", "messages": talk("one", "yes", "left", "l", "l")}))
	h.add(prompt(t, start.Add(time.Millisecond), map[string]any{"model": "m", "messages": talk("one", "yes", "right", "r", "r")}))
	require.Empty(t, h.divergences())
}

func TestHistoryIsBounded(t *testing.T) {
	var h history
	start := time.Unix(1000, 0)
	for i := range maxRemembered + 100 {
		d := prompt(t, start, map[string]any{"model": "m", "messages": talk("one")})
		d.Session = fmt.Sprint(i)
		h.add(d)
	}
	require.Equal(t, maxRemembered, h.order.Len())
	require.Len(t, h.byKey, maxRemembered)
	long := middleware.Done{API: canon.Chat, Boundaries: make([]canon.Boundary, maxRememberedMarks/2), Start: start}
	for i := range 5 {
		long.Session = fmt.Sprint("long ", i)
		h.add(&long)
	}
	require.Equal(t, 2, h.order.Len())
	require.LessOrEqual(t, h.marks, maxRememberedMarks)
	for i := range 3 * maxDivergences {
		d := prompt(t, start.Add(time.Duration(i)*time.Minute), map[string]any{"model": fmt.Sprint(i), "messages": talk("one")})
		h.add(d)
	}
	got := h.divergences()
	require.Len(t, got, maxDivergences)
	require.True(t, got[0].Time.After(got[1].Time), "the newest first")
}

func TestHottestPrefixes(t *testing.T) {
	call := func(where string, marks ...mark) sampled { return sampled{where: where, marks: marks} }
	got := hottest([]sampled{
		call("a", mark{1, 100}, mark{2, 1000}, mark{3, 1100}),
		call("b", mark{1, 100}, mark{2, 1000}, mark{4, 1200}),
		call("a", mark{1, 100}, mark{2, 1000}, mark{4, 1200}, mark{5, 5000}),
		call("a", mark{9, 9000}),
	})
	require.Equal(t, []hotPrefix{
		{Hash: 2, Calls: 3, Bytes: 1000, Tokens: 250, Instances: 2}, // saves 2,000
		{Hash: 4, Calls: 2, Bytes: 1200, Tokens: 300, Instances: 2}, // saves 1,200
	}, got, "1 is no longer than 2 for the same calls; 3, 5 and 9 are not shared")
	require.NotNil(t, hottest(nil))
}

func BenchmarkHistory(b *testing.B) {
	var h history
	d := middleware.Done{API: canon.Chat, Boundaries: make([]canon.Boundary, 32), Start: time.Now()}
	b.ReportAllocs()
	for i := range b.N {
		d.Root = uint64(i) + 1
		h.add(&d)
	}
}
