package main

import (
	"cmp"
	"slices"

	"github.com/prefixwise/prefixwise/canon"
)

// Sharing is how many bytes of prompt some earlier request has too.
type Sharing struct {
	Prompt    int `json:"prompt_bytes"` // after canonicalization
	Sent      int `json:"sent_prompt_bytes"`
	AsSent    int `json:"shared_as_sent"`
	Canonical int `json:"shared_after_canonicalization"`
	Steady    int `json:"shared_with_volatile_text_moved"` // and with what looks volatile at the end of each prompt
}

func (s *Sharing) add(o Sharing) {
	s.Prompt += o.Prompt
	s.Sent += o.Sent
	s.AsSent += o.AsSent
	s.Canonical += o.Canonical
	s.Steady += o.Steady
}

// Break is one class of difference between requests and the ones they continue.
type Break struct {
	Change   canon.Change `json:"change"`
	Mended   bool         `json:"mended"` // canonicalization removes it
	Count    int          `json:"count"`
	Lost     int          `json:"bytes_lost"`
	Winnable int          `json:"bytes_won_by_moving"`
	Line     int          `json:"line"`     // the first request with it
	Previous int          `json:"previous"` // and the one that it continues
	First    canon.Point  `json:"first"`
}

// Finding is what one request alone gives cause for.
type Finding struct {
	canon.Finding
	Count int `json:"count"`
	Line  int `json:"line"`
}

// Group is the requests of one program.
type Group struct {
	API           string    `json:"api"`
	Model         string    `json:"model"`
	Tools         int       `json:"tools"`
	System        string    `json:"system"` // how its system text begins
	Requests      int       `json:"requests"`
	Conversations int       `json:"conversations"`
	FirstLine     int       `json:"first_line"`
	Sharing       Sharing   `json:"sharing"`
	Breaks        []Break   `json:"breaks"`
	Findings      []Finding `json:"findings"`

	origin origin
	latest map[uint64]int    // conversation → its latest request
	told   map[uint64]uint64 // message → the conversation that it was met in last
}

// tellingBytes is how long a message must be to tell that two requests are of
// one conversation: "yes, please" is said in many.
const tellingBytes = 64

// conversation returns the conversation of a request: that of its first
// message of a user or, where that is new because older messages were removed,
// that of the latest of its messages that has been met.
func (g *Group) conversation(o *canon.Outline) uint64 {
	c := conversationOf(o)
	all := messagesOf(o)
	if _, known := g.latest[c]; !known {
		for i := len(all) - 1; i >= 0; i-- {
			if old, met := g.told[all[i].hash]; met && all[i].size >= tellingBytes {
				c = old
				break
			}
		}
	}
	for _, m := range all {
		g.told[m.hash] = c
	}
	return c
}

// Report is what a log gives.
type Report struct {
	Requests int      `json:"requests"`
	Sharing  Sharing  `json:"sharing"`
	Groups   []*Group `json:"groups"`
}

// analysis reads a log from its first request to its last.
type analysis struct {
	wire, stable       *canon.Canonicalizer
	sent, after, moved map[canon.API]*trie
	groups             []*Group
	groupOf            []int    // of each request
	conversation       []uint64 // of each request
	requests           []request
}

func analyse(requests []request) (*Report, error) {
	wire, err := canon.New(canon.Options{Level: canon.Wire})
	if err != nil {
		return nil, err
	}
	stable, err := canon.New(canon.Options{})
	if err != nil {
		return nil, err
	}
	a := &analysis{
		wire: wire, stable: stable, requests: requests,
		sent: map[canon.API]*trie{}, after: map[canon.API]*trie{}, moved: map[canon.API]*trie{},
	}
	for i := range requests {
		if err := a.add(i); err != nil {
			return nil, err
		}
	}
	r := &Report{Requests: len(requests), Groups: a.groups}
	for _, g := range a.groups {
		g.Conversations = len(g.latest)
		r.Sharing.add(g.Sharing)
		slices.SortStableFunc(g.Breaks, func(x, y Break) int {
			if x.Mended != y.Mended {
				return boolOrder(x.Mended) - boolOrder(y.Mended)
			}
			return cmp.Compare(y.Lost, x.Lost)
		})
	}
	slices.SortStableFunc(r.Groups, func(x, y *Group) int { return cmp.Compare(y.Sharing.Prompt, x.Sharing.Prompt) })
	return r, nil
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// add compares request i with those before it.
func (a *analysis) add(i int) error {
	q := a.requests[i]
	sent, err := a.wire.Outline(q.api, q.body)
	if err != nil {
		return err
	}
	after, err := a.stable.Outline(q.api, q.body)
	if err != nil {
		return err
	}
	s := Sharing{Prompt: after.Size, Sent: sent.Size}
	s.AsSent, _ = trieOf(a.sent, q.api).add(piecesOf(&sent, false), i)
	s.Canonical, _ = trieOf(a.after, q.api).add(piecesOf(&after, false), i)
	var best int
	s.Steady, best = trieOf(a.moved, q.api).add(piecesOf(&after, true), i)

	number := a.groupFor(&after, q)
	g := a.groups[number]
	g.Requests++
	g.Sharing.add(s)
	c := g.conversation(&after)
	a.groupOf, a.conversation = append(a.groupOf, number), append(a.conversation, c)
	if p := a.predecessor(g, number, c, best); p >= 0 {
		d := a.stable.Diff(q.api, a.requests[p].body, q.body)
		if a.conversation[p] != c {
			// Behind the head two conversations have nothing to lose.
			head := headSize(&after)
			d.Lost, d.Sent.Lost = min(d.Lost, max(0, head-d.Shared)), min(d.Sent.Lost, max(0, head-d.Sent.Shared))
		}
		g.compare(d, q.line, a.requests[p].line)
	}
	g.latest[c] = i
	for _, f := range canon.Lint(q.api, q.body) {
		g.find(f, q.line)
	}
	return nil
}

func trieOf(all map[canon.API]*trie, api canon.API) *trie {
	if all[api] == nil {
		all[api] = &trie{}
	}
	return all[api]
}

// groupFor returns the group of a request, a new one if it is like none.
func (a *analysis) groupFor(o *canon.Outline, q request) int {
	from := originOf(o)
	for n, g := range a.groups {
		if g.origin.like(from) {
			return n
		}
	}
	g := &Group{
		API: q.api.String(), Model: from.model, Tools: len(from.tools), FirstLine: q.line, origin: from,
		latest: map[uint64]int{}, told: map[uint64]uint64{},
	}
	for i := range o.Segments {
		if s := &o.Segments[i]; isSystemText(s) {
			g.System = beginning(s.Text)
			break
		}
	}
	a.groups = append(a.groups, g)
	return len(a.groups) - 1
}

// predecessor returns the request that one of conversation c most likely
// continues: the one with the most prompt in common, if it is of the same
// conversation; else the latest of that conversation; else the one with the
// most in common within the group; -1 for the first of a group.
func (a *analysis) predecessor(g *Group, number int, c uint64, best int) int {
	if best >= 0 && a.groupOf[best] == number && a.conversation[best] == c {
		return best
	}
	if p, ok := g.latest[c]; ok {
		return p
	}
	if best >= 0 && a.groupOf[best] == number {
		return best
	}
	newest := -1
	for _, p := range g.latest {
		newest = max(newest, p)
	}
	return newest
}

// compare counts a divergence.
func (g *Group) compare(d canon.Divergence, line, previous int) {
	if !d.Sent.Change.Natural() && d.Sent.Lost > d.Lost {
		g.count(Break{Change: d.Sent.Change, Mended: true, Lost: d.Sent.Lost - d.Lost, Line: line, Previous: previous, First: d.Sent})
	}
	if !d.Change.Natural() {
		g.count(Break{Change: d.Change, Lost: d.Lost, Winnable: d.Winnable, Line: line, Previous: previous, First: d.Point})
	}
}

func (g *Group) count(b Break) {
	b.Count = 1
	for i := range g.Breaks {
		if old := &g.Breaks[i]; old.Change == b.Change && old.Mended == b.Mended {
			old.Count++
			old.Lost += b.Lost
			old.Winnable += b.Winnable
			return
		}
	}
	g.Breaks = append(g.Breaks, b)
}

// find counts a finding; findings of one sort and place are one.
func (g *Group) find(f canon.Finding, line int) {
	for i := range g.Findings {
		if old := &g.Findings[i]; old.Code == f.Code && (old.Path == f.Path || f.Code != canon.FindVolatileText) {
			old.Count++
			return
		}
	}
	g.Findings = append(g.Findings, Finding{Finding: f, Count: 1, Line: line})
}
