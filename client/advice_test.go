package client

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/middleware"
)

// traffic makes calls that have ended, one each 50 ms of half a second.
type traffic struct {
	t     testing.TB
	stats Stats
	now   time.Time
	words *rand.Rand
}

func newTraffic(t testing.TB, instances int) *traffic {
	return &traffic{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), words: rand.New(rand.NewPCG(3, 4)),
		stats: Stats{sample: new(sample), members: instances}}
}

// text is n bytes that no other call of text returns.
func (tr *traffic) text(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x ", tr.words.Uint32())
	}
	return b.String()[:n]
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func (tr *traffic) call(messages ...message) {
	tr.callAt(0, messages...)
}

func (tr *traffic) callAt(tokens int, messages ...message) {
	body, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
	require.NoError(tr.t, err)
	r, err := canon.Canonicalize(canon.Chat, body)
	require.NoError(tr.t, err)
	tr.now = tr.now.Add(50 * time.Millisecond)
	tr.stats.sample.add(&middleware.Done{API: canon.Chat, Start: tr.now, Total: 500 * time.Millisecond,
		Head: r.Head, Root: r.Root, Boundaries: r.Boundaries, PromptTokens: tokens})
}

func (tr *traffic) unrelated(n int) {
	for range n {
		tr.call(message{"user", tr.text(4000)})
	}
}

// documents asks many questions about each of some long documents.
func (tr *traffic) documents(documents, questions int) {
	rules := tr.text(600)
	var texts []string
	for range documents {
		texts = append(texts, tr.text(24_000))
	}
	for range questions {
		for _, d := range texts {
			tr.call(message{"system", rules}, message{"user", d + tr.text(80)})
		}
	}
}

// agents are conversations that grow, side by side.
func (tr *traffic) agents(n, turns int) {
	tools := tr.text(6000)
	all := make([][]message, n)
	for range turns {
		for i := range all {
			if all[i] == nil {
				all[i] = []message{{"system", tools}}
			} else {
				all[i] = append(all[i], message{"assistant", tr.text(300)})
			}
			all[i] = append(all[i], message{"user", tr.text(2000)})
			tr.call(all[i]...)
		}
	}
}

func (a Advice) of(s Strategy, length int) StrategyEstimate {
	for _, e := range a.Estimates {
		if e.Strategy == s && e.PrefixLength == length {
			return e
		}
	}
	return StrategyEstimate{}
}

func TestAdviceWithTooLittleData(t *testing.T) {
	a := Stats{}.Advice()
	require.Equal(t, TooLittleData, a.Verdict)
	require.Contains(t, a.String(), "too little data: 0 calls")
	tr := newTraffic(t, 4)
	tr.agents(10, 19)
	a = tr.stats.Advice()
	require.Equal(t, TooLittleData, a.Verdict)
	require.Contains(t, a.Reason, "190 calls")
	require.Empty(t, a.Estimates)
	require.Zero(t, a.PrefixLength+a.Concurrency)
}

func TestAdviceAgainst(t *testing.T) {
	tests := map[string]struct {
		instances int
		traffic   func(*traffic)
		reason    string
	}{
		"unrelated prompts": {4, func(tr *traffic) { tr.unrelated(300) }, "little in common: a cache without bounds would have 0 %"},
		"one instance":      {1, func(tr *traffic) { tr.agents(30, 10) }, "one instance"},
		"short prompts": {4, func(tr *traffic) {
			for range 300 {
				tr.call(message{"system", "Be brief."}, message{"user", tr.text(200)})
			}
		}, "55 tokens on average"},
		"one prompt for all": {4, func(tr *traffic) {
			system := tr.text(8000)
			for range 300 {
				tr.call(message{"system", system}, message{"user", tr.text(500)})
			}
		}, "any routing finds most of what is shared"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tr := newTraffic(t, tt.instances)
			tt.traffic(tr)
			a := tr.stats.Advice()
			require.Equal(t, NotWorthIt, a.Verdict, a.String())
			require.Contains(t, a.Reason, tt.reason)
			require.Contains(t, a.String(), "not worth it")
			require.Zero(t, a.PrefixLength, "nothing is suggested")
			require.Zero(t, a.Concurrency)
		})
	}
}

func TestAdviceForDocuments(t *testing.T) {
	tr := newTraffic(t, 4)
	tr.documents(20, 16)
	a := tr.stats.Advice()
	require.Equal(t, WorthIt, a.Verdict, a.String())
	require.Equal(t, 320, a.Calls)
	require.Equal(t, 320, a.Conversations)
	// A document is found up to the boundary at 16 KiB, in 15 calls of 16; and
	// the rules in all but one.
	require.InDelta(t, 15./16*(600+16384)/24_690, a.Shared, .01)
	require.InDelta(t, a.Shared, a.of(Affinity, 0).HitRate, .03)
	require.Less(t, a.of(Random, 0).HitRate, a.Shared-.1)
	require.Contains(t, []int{2048, 4096, 8192, 16384}, a.PrefixLength, "beyond the rules, within the document")
	require.Less(t, a.of(FixedPrefix, 32768).HitRate, a.of(FixedPrefix, a.PrefixLength).HitRate-.1, "with the question in it")
	require.Equal(t, 8, a.Concurrency, "ten are in flight, so three at an instance")
	require.Contains(t, a.String(), fmt.Sprintf("a gateway with a fixed prefix: %d characters, at most 8", a.PrefixLength))
}

func TestAdviceForAgents(t *testing.T) {
	tr := newTraffic(t, 4)
	tr.agents(40, 12)
	a := tr.stats.Advice()
	require.Equal(t, WorthIt, a.Verdict, a.String())
	require.Equal(t, 40, a.Conversations)
	require.Greater(t, a.Shared, .85)
	require.InDelta(t, a.Shared, a.of(Affinity, 0).HitRate, .02)
	require.Greater(t, a.PrefixLength, 4096, "beyond the tools that all have in common")
	require.Less(t, a.of(FixedPrefix, a.PrefixLength).Work, a.of(FixedPrefix, 1024).Work-.1, "which sends all to one instance")
	require.Less(t, a.of(Affinity, 0).Work, a.of(Random, 0).Work-.1)
	for _, e := range a.Estimates {
		require.LessOrEqual(t, e.HitRate, a.Shared+1e-9, "no rule finds what is not there")
		require.GreaterOrEqual(t, e.Share, .25)
	}
}

// Small caches push conversations out where they are spread.
func TestAdviceKnowsTheSizeOfCaches(t *testing.T) {
	tr := newTraffic(t, 4)
	tr.agents(40, 12)
	free := tr.stats.Advice()
	tr.stats.cacheTokens = 60_000 // ten conversations of 24 KB at their end
	tight := tr.stats.Advice()
	require.Contains(t, tight.String(), "caches of 60000 tokens")
	require.Less(t, tight.of(Random, 0).HitRate, free.of(Random, 0).HitRate-.05)
	tr.stats.cacheTokens = 2000
	none := tr.stats.Advice()
	require.Less(t, none.of(Affinity, 0).HitRate, tight.of(Affinity, 0).HitRate-.2)
}

func TestAdviceUsesReportedTokens(t *testing.T) {
	tr := newTraffic(t, 2)
	for range 200 {
		tr.callAt(1000, message{"user", tr.text(2000)})
	}
	require.InDelta(t, 1000, tr.stats.Advice().PromptTokens, 1)
}

// A busy client's sample must be bounded and share as much as its traffic does.
func TestSampleIsThinnedByGroup(t *testing.T) {
	whole, thinned := newTraffic(t, 4), newTraffic(t, 4)
	whole.documents(100, 10)
	for range 5 { // of the same kind, five times as much
		thinned.documents(100, 10)
	}
	calls, rate := thinned.stats.sample.copy()
	require.LessOrEqual(t, len(calls), maxSampled)
	require.Greater(t, len(calls), maxSampled/4)
	require.Less(t, rate, 1.)
	groups := map[uint64]int{}
	for _, c := range calls {
		groups[c.group]++
	}
	for _, n := range groups {
		require.Equal(t, 10, n, "all calls about a document, or none")
	}
	a, b := whole.stats.Advice(), thinned.stats.Advice()
	require.InDelta(t, a.Shared, b.Shared, .02)
	require.InDelta(t, a.of(Affinity, 0).HitRate, b.of(Affinity, 0).HitRate, .05)
	require.Equal(t, rate, b.Part)
}

func TestSampleForgetsTheOldest(t *testing.T) {
	tr := newTraffic(t, 4)
	for range maxSampled + 1 {
		tr.now = tr.now.Add(time.Second)
		tr.call(message{"user", "x"})
	}
	calls, rate := tr.stats.sample.copy()
	require.Equal(t, 1., rate)
	require.Len(t, calls, maxSampled+1-(maxSampled+4)/4)
	require.Equal(t, tr.now, calls[len(calls)-1].begun)
	marks := 0
	for _, c := range calls {
		marks += len(c.marks)
	}
	require.Equal(t, marks, tr.stats.sample.marks)

	long := newTraffic(t, 4)
	all := []message{}
	for range maxPromptMarks + 100 {
		all = append(all, message{"user", "x"})
	}
	for range 2 * maxMarks / maxPromptMarks {
		long.now = long.now.Add(time.Hour)
		long.call(all...)
	}
	require.LessOrEqual(t, long.stats.sample.marks, maxMarks)
	calls, _ = long.stats.sample.copy()
	require.Len(t, calls[0].marks, maxPromptMarks)
}

// Prompts of one template are one group: leaving out groups must not leave out
// all of them, or all but a few.
func TestSampleOfOneGroup(t *testing.T) {
	for name, rare := range map[string]int{"alone": 0, "beside others": 10} {
		t.Run(name, func(t *testing.T) {
			tr := newTraffic(t, 4)
			s := tr.stats.sample
			template := uint64(1)
			for takes(groupOf(template), .5) { // the first halving would leave it out
				template++
			}
			for i := range 3 * maxSampled {
				tr.now = tr.now.Add(time.Millisecond)
				hash := template
				if rare > 0 && i%rare == 0 {
					hash = uint64(1000 + i)
				}
				s.add(&middleware.Done{Start: tr.now, Boundaries: []canon.Boundary{{Hash: hash, Offset: 1024}}})
			}
			calls, part := s.copy()
			require.GreaterOrEqual(t, len(calls), maxSampled/2)
			require.Equal(t, tr.now, calls[len(calls)-1].begun)
			require.Equal(t, 1., part)
		})
	}
}

// A part is of the calls, not of the groups, which have more or fewer of them.
func TestSampleKnowsItsPart(t *testing.T) {
	var s sample
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	add := func(hash uint64) {
		s.add(&middleware.Done{Start: now, Boundaries: []canon.Boundary{{Hash: hash, Offset: 1024}}})
	}
	kept, left := uint64(1), uint64(1)
	for !takes(groupOf(kept), .1) {
		kept++
	}
	for takes(groupOf(left), .5) {
		left++
	}
	for i := range maxSampled + 1 {
		add([]uint64{kept, kept, left}[i%3])
	}
	_, part := s.copy()
	require.InDelta(t, 2./3, part, .001)

	// When what is kept does not come any more, what does is taken after a while.
	now = now.Add(sampleStale)
	add(left)
	calls, _ := s.copy()
	require.NotEqual(t, now, calls[len(calls)-1].begun)
	now = now.Add(time.Second)
	add(left)
	calls, part = s.copy()
	require.Len(t, calls, 1)
	require.Equal(t, 1., part)
}

func BenchmarkSample(b *testing.B) {
	var s sample
	d := middleware.Done{API: canon.Chat, Boundaries: make([]canon.Boundary, 32), Root: 1}
	for i := range d.Boundaries {
		d.Boundaries[i] = canon.Boundary{Hash: uint64(i + 1), Offset: 1000 * i}
	}
	now := time.Now()
	b.ReportAllocs()
	for i := range b.N {
		d.Start = now.Add(time.Duration(i) * time.Second) // so that all are taken
		d.Boundaries[0].Hash = uint64(i)
		s.add(&d)
	}
}

func BenchmarkAdvice(b *testing.B) {
	tr := newTraffic(b, 8)
	tr.agents(300, 13)
	b.ReportAllocs()
	for b.Loop() {
		tr.stats.Advice()
	}
}

func TestSuggestedLengthSpreads(t *testing.T) {
	a := Advice{Estimates: []StrategyEstimate{
		{Random, 0, .99, .25, .01},             // not a length
		{FixedPrefix, 1024, .81, .99, .75},     // most hits, all of them at one instance
		{FixedPrefix, 2048, .70, .30, .400},    // as good in work, fewer hits
		{FixedPrefix, 4096, .75, .30, .395},    // one of three equals
		{FixedPrefix, 8192, .749, .29, .39},    // the middle one
		{FixedPrefix, 16384, .7505, .31, .405}, // the third
		{FixedPrefix, 32768, .60, .28, .45},
	}}
	a.suggest()
	require.Equal(t, 8192, a.PrefixLength)
}
