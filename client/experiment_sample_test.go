package client

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/middleware"
)

// What is kept of many conversations must be whole conversations, chosen by lot.
func TestSampleKeepsWholeConversations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lots := make([]uint64, 3*maxConversations)
	for i := range lots {
		lots[i] = r.Uint64()
	}
	var a arm
	const calls = 3
	for range calls {
		r.Shuffle(len(lots), func(i, j int) { lots[i], lots[j] = lots[j], lots[i] })
		for _, l := range lots {
			if c := a.of(l); c != nil {
				c.add(&middleware.Done{PromptTokens: 10, CachedTokens: 4, CompletionTokens: 3, FirstByte: time.Second, Total: 2 * time.Second})
			}
		}
	}
	slices.Sort(lots)
	require.Len(t, a.kept, maxConversations)
	kept := slices.Clone(a.largest)
	slices.SortFunc(kept, func(x, y *conversation) int { return cmp.Compare(x.lot, y.lot) })
	for i, c := range kept {
		require.Equal(t, lots[i], c.lot)
		require.EqualValues(t, 10*calls, c.prompt, "a conversation that came late or left is not counted in part")
		require.Equal(t, calls, c.firsts)
	}
	report := a.report(Random)
	require.Equal(t, Estimate{.4, .4, .4, maxConversations}, report.HitRate)
	require.Equal(t, 1.5, report.Throughput.Value)
	require.Equal(t, 1.0, report.FirstToken.Value)
}

// A report is computed from a copy, while calls go on ending.
func TestCopyOfAnArmStaysAsItWas(t *testing.T) {
	var a arm
	a.calls, a.failed = 3, 1
	a.of(7).add(&middleware.Done{PromptTokens: 10, CachedTokens: 4, FirstByte: time.Second})
	c := a.copy()
	want := a.report(Random)
	require.Equal(t, want, c.report(Random))
	a.calls++
	a.of(7).add(&middleware.Done{PromptTokens: 10, CachedTokens: 8, FirstByte: 2 * time.Second})
	a.of(8).add(&middleware.Done{PromptTokens: 10, CachedTokens: 8})
	require.Equal(t, want, c.report(Random))
	require.NotEqual(t, want, a.report(Random))
}

func TestFirstTokensOfALongConversationAreSampled(t *testing.T) {
	const rounds = 2000
	sum := 0.0
	for range rounds {
		var c conversation
		for i := range 100 {
			c.add(&middleware.Done{FirstByte: time.Duration(1+i) * time.Second, PromptTokens: -1, CachedTokens: -1})
		}
		require.Equal(t, 100, c.firsts)
		for _, v := range c.first {
			sum += float64(v)
		}
	}
	// The mean of 16,000 draws of 1 to 100 is within 0.23 (one deviation) of 50.5.
	require.InDelta(t, 50.5, sum/rounds/maxFirsts, 1.2)
}
