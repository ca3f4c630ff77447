package client

import (
	"container/heap"
	"math/rand/v2"

	"github.com/prefixwise/prefixwise/middleware"
)

// conversation is what an experiment keeps of one conversation.
type conversation struct {
	lot             uint64  // of its arm's, the random-looking number that it has
	prompt, cached  float64 // tokens, of calls that told both
	tokens, seconds float64 // of completion, and the time of the calls that made them
	firsts          int     // times to first token seen,
	first           [maxFirsts]float32
}

const (
	// maxConversations bounds what is kept of an arm. The interval of a hit
	// rate is then about a point wide, so more would add little.
	maxConversations = 4096
	// maxFirsts bounds the times to first token that are kept of a conversation,
	// by lot.
	maxFirsts = 8
)

// arm collects one arm of an experiment. Of more than maxConversations it keeps
// those with the smallest lots: a conversation that is kept has been kept from
// its first call on, so the sample is one of whole conversations.
type arm struct {
	calls, failed uint64
	kept          map[uint64]*conversation
	largest       lots
}

// lots is a heap with the largest lot on top.
type lots []*conversation

func (l lots) Len() int           { return len(l) }
func (l lots) Less(i, j int) bool { return l[i].lot > l[j].lot }
func (l lots) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *lots) Push(c any)        { *l = append(*l, c.(*conversation)) }
func (l *lots) Pop() any {
	old := *l
	c := old[len(old)-1]
	*l = old[:len(old)-1]
	return c
}

// of returns the conversation with this lot, nil if it is not in the sample.
func (a *arm) of(lot uint64) *conversation {
	if c := a.kept[lot]; c != nil {
		return c
	}
	if len(a.kept) >= maxConversations {
		if lot > a.largest[0].lot {
			return nil
		}
		delete(a.kept, heap.Pop(&a.largest).(*conversation).lot)
	}
	if a.kept == nil {
		a.kept = map[uint64]*conversation{}
	}
	c := &conversation{lot: lot}
	a.kept[lot] = c
	heap.Push(&a.largest, c)
	return c
}

// add counts a call that has succeeded.
func (c *conversation) add(d *middleware.Done) {
	if d.PromptTokens > 0 && d.CachedTokens >= 0 {
		c.prompt += float64(d.PromptTokens)
		c.cached += float64(d.CachedTokens)
	}
	if d.CompletionTokens > 0 && d.Total > 0 {
		c.tokens += float64(d.CompletionTokens)
		c.seconds += d.Total.Seconds()
	}
	if d.FirstByte > 0 {
		at := c.firsts
		if c.firsts++; at >= maxFirsts { // a sample of all, by Vitter's algorithm R
			at = rand.IntN(c.firsts)
		}
		if at < maxFirsts {
			c.first[at] = float32(d.FirstByte.Seconds())
		}
	}
}

// copy returns what report needs, apart from the arm.
func (a *arm) copy() arm {
	all := make([]conversation, len(a.largest))
	c := arm{calls: a.calls, failed: a.failed, largest: make(lots, len(all))}
	for i, one := range a.largest {
		all[i] = *one
		c.largest[i] = &all[i]
	}
	return c
}

// report sums an arm up.
func (a *arm) report(s Strategy) Arm {
	all := a.largest
	r := Arm{Strategy: s, Calls: a.calls, Failed: a.failed, Conversations: len(all)}
	r.HitRate = ratio(all, func(c *conversation) (x, y float64) { return c.cached, c.prompt })
	r.HitRate.Low, r.HitRate.High = max(0, r.HitRate.Low), min(1, r.HitRate.High)
	r.Throughput = ratio(all, func(c *conversation) (x, y float64) { return c.tokens, c.seconds })
	r.FirstToken = median(all, func(c *conversation) ([]float32, float64) {
		n := min(c.firsts, maxFirsts)
		return c.first[:n], float64(c.firsts) / float64(max(n, 1))
	})
	return r
}
