package affinity

import (
	"math"
	"time"
)

// affine is the strategy Affinity: the cheapest of the first of the conversation's
// order (four, or two where clients must agree) and the endpoints that this router
// itself has sent more of the prompt to. See price.go for what costs, gauges.go
// and booking.go for how waits are known, index.go and recall.go for who has what,
// heads.go for how far a system text spreads.
func (r *Router) affine(c *choice, p *plan, req *Request, tried []string, now time.Duration) {
	head := headIndex(req)
	var t trail
	t.follow(req.Boundaries, head, req.Root, req.previous())
	t.seek(c.sent(), c.scope.index(), req.Boundaries)
	// While the index's lines are on their way, what does not need them.
	c.seed = mix(c.scope.root(req))
	look := r.look(now)
	size := r.sizes(req)
	pace := r.speed.pace()

	var have holdings
	stranger := r.recall(&t, c, req, head, &have)
	others := r.company(len(c.group.up))
	var ord order
	r.arrange(&ord, c, req, head, look, others.meet, now)
	home := ord.slots[0]
	stays := home // where the conversation stays unless leaving pays
	if c.last != nil {
		// Whoever sends the next turn will know as well.
		stays, others.meet, others.share = c.last, false, 0
	}
	again := r.later.or(.5) * others.share
	credit := 0 // what home is taken to have at least, for prices only
	if ord.alone {
		// A document is best kept where it is known to be, at home or not. If that
		// is not known, others will look for it at home. How the turns of
		// conversations follow each other says nothing of first questions.
		if req.previous() == 0 {
			again = 0
		}
		if c.last == nil && have.deepest < req.Boundaries[head].Bytes {
			again = max(again, askedAgain)
		}
	} else {
		credit = others.credit(req, head, have.deepest, stranger)
	}
	depth := func(s *slot) int {
		if s == home {
			return max(have.of(s.number), credit)
		}
		return have.of(s.number)
	}
	compute := func(s *slot) float64 {
		return pace.prefill(size.tokens(depth(s)), size.prompt)
	}
	price := newPrices(look, compute(home), again, r.firstToken.or(1), pace.prefill(0, r.prompts.or(usualPrompt)))
	if others.meet {
		ord.n = min(2, ord.n)
	}
	if c.last != nil {
		ord.append(c.last)
	}
	var room [maxKnown]int
	for _, i := range have.among(c.group, room[:0]) {
		ord.append(&c.group.up[i])
	}

	for {
		var best *slot
		var least float64
		for _, s := range ord.slots[:ord.n] {
			if s.full() || s.tried(tried) {
				continue
			}
			cost := price.cost(s.tally.wait(now), compute(s), s.tally.inflow(now), s.tally.load())
			if s != stays {
				cost += price.away
			}
			if best == nil || cost < least {
				best, least = s, cost
			}
		}
		if best == nil {
			c.slot = r.takeLeast(c, tried)
			break
		}
		if best.tally.acquire(best.limit) {
			c.slot = best
			break
		}
	}
	if c.slot == nil && !r.overLimit(c, tried) {
		return
	}
	better := ReasonOverflowLoad
	if c.slot == c.last {
		better = ReasonCarried
	} else if depth(c.slot) > depth(c.home) {
		better = ReasonCached
	}
	if c.reason != ReasonOverLimit {
		c.settle(tried, better)
	}
	known := have.of(c.slot.number)
	p.planned = true
	p.index, p.own = t.in, t.own
	p.number = c.slot.number
	p.bytes = int32(min(size.bytes, math.MaxInt32))
	p.have = min(int32(min(known, math.MaxInt32)), p.bytes)
	p.wait = float32(c.slot.tally.wait(now))
	if head >= 0 && known >= req.Boundaries[head].Bytes {
		p.head, p.headTokens = req.Head^t.own, int32(size.tokens(req.Boundaries[head].Bytes))
	}
	if n := req.previous(); n > 0 && (known >= req.Boundaries[n-1].Bytes || others.meet && c.slot == home) {
		p.last = int32(min(req.Boundaries[n-1].Bytes, math.MaxInt32))
		if head >= 0 {
			p.common = int32(min(req.Boundaries[head].Bytes, math.MaxInt32))
		}
	}
	c.slot.tally.bookings.add(now, compute(c.slot))
	t.remember(req, c.slot.number, now)
}

// plan is what a pick expected, to be compared with what came of it.
type plan struct {
	planned    bool
	index      *index // that the pick has written to: number means nothing in another
	own        uint64 // mixed into the prompt's hashes
	number     uint16 // of the endpoint in the index
	head       uint64 // hash of the head, if it is expected to be there; else 0
	headTokens int32
	last       int32   // bytes of the conversation's last turn, if it is expected to be there; else 0
	common     int32   // of them, those of the head
	bytes      int32   // of prompt, 0 unknown
	have       int32   // of them, expected to be there
	wait       float32 // seconds
}

// company is what a client has learned of the others that send turns of the same
// conversations.
type company struct {
	meet  bool    // each conversation is kept to two endpoints, to find what others have sent
	gone  bool    // it would be, were not most of that forgotten by the next turn
	share float64 // of later turns: those for which another client has sent the last one, as far as it is still there
	found float64 // of what the last turn has left, the part that is
}

func (r *Router) company(endpoints int) company {
	o := company{share: r.strangers.or(.5), found: r.found.or(1)}
	if o.share > strangerShare {
		o.meet = endpoints <= 2 || o.share*o.found > strangerShare // two are all there are
		o.gone = !o.meet
	}
	if o.gone {
		o.share *= o.found // what the next turn would not find is no loss to it
	}
	return o
}

// credit returns how much of the prompt home is taken to have, in bytes, when this
// client knows of so much anywhere; stranger says that another has sent the last turn.
func (o *company) credit(req *Request, head, known int, stranger bool) int {
	last := 0
	if n := req.previous(); n > 0 {
		last = req.Boundaries[n-1].Bytes
	}
	if o.meet && last > 0 {
		// What others sent, they sent home. Not so what a first turn shares with
		// other conversations: their homes are elsewhere.
		if stranger {
			return max(known, last)
		}
		return known
	}
	// A head that home lacks is computed there once and serves all that live there
	// after; were it counted, an idle fleet would send everybody to the one endpoint
	// that has it.
	shared := 0
	if head >= 0 {
		shared = min(known, req.Boundaries[head].Bytes)
	}
	if stranger && o.gone { // it may be there all the same
		shared += int(o.found * float64(max(0, last-shared)))
	}
	return shared
}

// look returns the fleet's outlook, nil when there is no recent one.
func (r *Router) look(now time.Duration) *outlook {
	if o := r.outlook.Load(); o != nil && o.until >= now {
		return o
	}
	return nil
}

// arrange works out the beginning of the request's order of endpoints, and
// which of all, available or not, is home.
func (r *Router) arrange(ord *order, c *choice, req *Request, at int, look *outlook, meet bool, now time.Duration) {
	g := c.group
	head, spread := uint64(0), len(g.all)
	key := c.seed // of what is handed on
	if at >= 0 {
		size := r.tokens(req.Boundaries[at].Bytes)
		hits := r.heads.note(req.Head^c.scope.index(), int(size))
		if r.heads.due() && r.mu.TryLock() {
			r.heads.sweep()
			r.mu.Unlock()
		}
		memory := 0.
		if look != nil {
			memory = look.memory * float64(len(g.up))
		}
		dominant := r.heads.several() && req.dominated(at)
		if few := r.heads.spread(hits, len(g.up), memory, dominant); few < len(g.up) {
			head, spread = mix(c.scope.head(req)), few // and not all that are available
			if ord.alone = few == 1 && dominant; ord.alone {
				key = head
			}
		}
	}
	fill := func(o *order, slots []slot) *slot {
		o.fill(g, slots, head, c.seed, spread)
		if meet {
			o.shift(key, now)
		}
		return o.slots[0]
	}
	c.home, c.homeUp = fill(ord, g.up), true
	if len(g.up) < len(g.all) {
		var all order
		c.home = fill(&all, g.all)
		if c.homeUp = g.numbered(c.home.number) >= 0; c.homeUp {
			ord.first(c.home) // others that are down are no reason to leave it
		}
	}
}

// dominated tells whether the head, which ends at a boundary, is most of the
// prompt, as a document is. It goes by the prompt alone, so that every process
// finds the same whatever it has learned of lengths; when a conversation outgrows
// its head, its home changes, once. A session belongs together whatever is in it.
func (r *Request) dominated(at int) bool {
	return r.Session == "" && 2*r.Boundaries[at].Bytes > r.Boundaries[len(r.Boundaries)-1].Bytes
}

// size is the length of a request's prompt.
type size struct {
	bytes   int
	perByte float64
	prompt  float64 // tokens
}

// tokensPerByte is assumed until responses have told: about that of English
// text and of program code in the tokenizers of the present.
const tokensPerByte = .25

// sizes estimates how long the prompt is. One of which nothing is known counts
// as the mean.
func (r *Router) sizes(req *Request) size {
	s := size{perByte: r.density.or(tokensPerByte)}
	if n := len(req.Boundaries); n > 0 {
		s.bytes = req.Boundaries[n-1].Bytes
		s.prompt = float64(s.bytes) * s.perByte
	} else {
		s.prompt = r.prompts.or(usualPrompt)
	}
	return s
}

// usualPrompt is how many tokens a prompt is taken to have until responses have
// told.
const usualPrompt = 1000

// tokens converts a depth; the last token of a prompt is always computed.
func (s size) tokens(bytes int) float64 { return min(float64(bytes)*s.perByte, s.prompt-1) }

func (r *Router) tokens(bytes int) float64 { return float64(bytes) * r.density.or(tokensPerByte) }

// learn takes what came of a pick.
func (r *Router) learn(l *Lease, o *Outcome) {
	p := &l.plan
	if !p.planned {
		return
	}
	switch {
	case o.refused():
		p.index.forget(p, o.Boundaries)
	case o.FirstByte > 0 || o.Status > 0 && o.Err == nil: // a status alone may come before any prefill
		p.index.confirm(p, o.Boundaries)
	}
	if o.PromptTokens <= 0 {
		return
	}
	r.prompts.add(float64(o.PromptTokens), turnMemory)
	if p.bytes > 0 {
		r.density.add(float64(o.PromptTokens)/float64(p.bytes), turnMemory)
	}
	if p.head != 0 && o.CachedTokens >= 0 && o.CachedTokens < int(p.headTokens)/2 {
		// The engine has dropped it, and others may have as well: it is known to
		// be here, and nowhere else.
		p.index.line(p.head).only(p.head, p.number)
	}
	if own := float64(p.last - p.common); own > 0 && o.CachedTokens >= 0 {
		// By this prompt's own tokens to a byte: texts differ, and own may be a small part.
		cached := float64(o.CachedTokens) * float64(p.bytes) / float64(o.PromptTokens)
		r.found.add(max(0, min(1, (cached-float64(p.common))/own)), turnMemory)
	}
	if o.FirstByte <= 0 {
		return
	}
	first := o.FirstByte.Seconds()
	r.firstToken.add(first, turnMemory)
	if o.CachedTokens >= 0 && p.wait < maxLearnWait {
		r.speed.learn(float64(o.CachedTokens), float64(o.PromptTokens-o.CachedTokens), first)
	}
}
