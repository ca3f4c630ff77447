package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// A generator makes traffic where no recording has the shape in question.
//
//	gen:heads      many long heads (tools and system text), each request another
//	               one at random with a short question behind it
//	gen:chat       conversations in the manner of ShareGPT: short turns, each with
//	               the whole history before it
//	gen:documents  single questions about long documents, more than a cache holds;
//	               of each document one is asked after the other, at random, or
//	               with zipf=1.1 of some far more than of others; with inline=1
//	               the document is in the question's own message, not before it
//
// The first two are closed loops: each of a number of users sends its next
// request when the answer to the last one is there. Questions about documents
// arrive as a Poisson process, so many a second.
//
// Parameters follow the name: gen:heads:prefixes=52,users=42. Lengths are in
// tokens, times in seconds.
var generators = map[string]map[string]float64{
	"heads":     {"block": 16, "prefixes": 52, "length": 8000, "question": 100, "output": 400, "users": 42, "requests": 200, "think": .01},
	"chat":      {"block": 16, "users": 200, "chats": 40, "system": 64, "turns": 5, "question": 150, "output": 250, "think": 5},
	"documents": {"block": 16, "documents": 40, "length": 8000, "questions": 10, "question": 60, "output": 40, "arrivals": 2, "zipf": 0, "inline": 0},
}

// leastOf is the least value of a parameter, where that is not 0.
var leastOf = map[string]float64{"block": 1, "prefixes": 1, "users": 1, "requests": 1, "chats": 1, "turns": 1, "documents": 1, "questions": 1, "arrivals": 1e-6}

// mostOfAny bounds each parameter, and mostBlocks the blocks of all prompts: one is
// eight bytes of memory.
const mostOfAny, mostBlocks = 1e6, 1e8

// sizeOf estimates how many blocks all prompts have.
func sizeOf(name string, p map[string]float64) float64 {
	requests, length := 0.0, p["length"]+p["question"]
	switch name {
	case "heads":
		requests = p["prefixes"] + p["users"]*p["requests"]
	case "chat":
		requests, length = p["users"]*p["chats"]*min(p["turns"], maxTurns), maxChat/2
	case "documents":
		requests = p["documents"] * (1 + p["questions"])
	}
	return requests * max(1, length/p["block"])
}

// generate makes the traffic that spec (without "gen:") names. The same spec
// and seed make the same traffic.
func generate(spec string, seed uint64) (*trace, error) {
	name, list, _ := strings.Cut(spec, ":")
	defaults, ok := generators[name]
	if !ok {
		return nil, fmt.Errorf("unknown generator %q; use heads, chat or documents", name)
	}
	p := map[string]float64{}
	for k, v := range defaults {
		p[k] = v
	}
	for _, word := range strings.Split(list, ",") {
		if word == "" {
			continue
		}
		key, text, _ := strings.Cut(word, "=")
		value, err := strconv.ParseFloat(text, 64)
		switch _, known := defaults[key]; {
		case !known || err != nil:
			return nil, fmt.Errorf("generator %s: %q is not a parameter; use one of %s, each with a number", name, word, strings.Join(keys(defaults), ", "))
		case !(value >= leastOf[key] && value <= mostOfAny):
			return nil, fmt.Errorf("generator %s: %q is out of range; use a number from %g to %.0f", name, word, leastOf[key], mostOfAny)
		}
		p[key] = value
	}
	if size := sizeOf(name, p); size > mostBlocks {
		return nil, fmt.Errorf("gen:%s is too much: it has %.2g blocks of prompts; make it one with fewer or shorter requests, of at most %.0e", spec, size, float64(mostBlocks))
	}
	g := &generator{trace: &trace{name: "gen:" + spec, block: int(p["block"]), closed: name != "documents"},
		rand: rand.New(rand.NewPCG(seed, 1))}
	switch name {
	case "heads":
		g.heads(p)
	case "chat":
		g.chats(p)
	case "documents":
		g.documents(p)
	}
	if len(g.trace.requests) == 0 { // every chat of gen:chat was too long
		return nil, fmt.Errorf("%s: %w", g.trace.name, errEmptyTrace)
	}
	g.trace.derivePrefixes()
	if p["inline"] > 0 {
		for _, r := range g.trace.requests {
			r.head = 0
		}
	}
	return g.trace, nil
}

type generator struct {
	*trace
	rand *rand.Rand
	last uint64 // hash given out
}

func (g *generator) heads(p map[string]float64) {
	length := int(p["length"])
	heads := make([][]uint64, int(p["prefixes"]))
	for i := range heads {
		heads[i] = g.fresh(nil, length/g.block)
	}
	for range int(p["users"]) {
		var before *request
		for range int(p["requests"]) {
			prompt := length + g.around(p["question"], .3)
			before = g.add(before, &request{
				at: g.wait(2), prompt: prompt, output: g.around(p["output"], .5),
				hashes:  g.fresh(heads[g.rand.IntN(len(heads))], prompt/g.block),
				session: len(g.requests),
			}, p["think"])
		}
	}
}

// maxChat and maxTurns end a conversation of gen:chat.
const (
	maxChat  = 7500 // tokens
	maxTurns = 20
)

func (g *generator) chats(p map[string]float64) {
	system := g.fresh(nil, int(p["system"])/g.block)
	session := 0
	for range int(p["users"]) {
		var before *request
		for range int(p["chats"]) {
			turns := 1
			for g.rand.Float64() > 1/p["turns"] && turns < maxTurns {
				turns++
			}
			hashes, prompt := system, len(system)*g.block
			for range turns {
				prompt += g.around(p["question"], 1.5)
				output := g.around(p["output"], 1)
				if prompt+output > maxChat {
					break
				}
				hashes = g.fresh(hashes, prompt/g.block)
				before = g.add(before, &request{at: g.wait(10), prompt: prompt, output: output, hashes: hashes, session: session}, p["think"])
				prompt += output
			}
			session++
		}
	}
}

func (g *generator) documents(p map[string]float64) {
	length, n := int(p["length"]), int(p["documents"])
	documents := make([][]uint64, n)
	for i := range documents {
		documents[i] = g.fresh(nil, length/g.block)
	}
	// Each of the documents is asked about equally often, in random order, or
	// the i-th in proportion to 1/i^zipf.
	total := n * int(p["questions"])
	order := make([]int, total)
	weights := make([]float64, n)
	var sum float64
	for i := range weights {
		sum += math.Pow(float64(i+1), -p["zipf"])
		weights[i] = sum
	}
	for i := range order {
		order[i] = i % n
		if p["zipf"] > 0 {
			order[i] = min(n-1, sort.SearchFloat64s(weights, g.rand.Float64()*sum))
		}
	}
	g.rand.Shuffle(total, func(i, k int) { order[i], order[k] = order[k], order[i] })
	at := time.Duration(0)
	for i, d := range order {
		at += g.wait(1 / p["arrivals"])
		prompt := length + g.around(p["question"], .3)
		g.add(nil, &request{at: at, prompt: prompt, output: g.around(p["output"], .3),
			hashes: g.fresh(documents[d], prompt/g.block), session: i}, 0)
	}
}

// add appends r, to be sent when before is over.
func (g *generator) add(before, r *request, think float64) *request {
	if before != nil {
		before.next, before.think = r, g.wait(think)
	}
	g.requests = append(g.requests, r)
	return r
}

// fresh returns a copy of prefix with new hashes up to n blocks.
func (g *generator) fresh(prefix []uint64, n int) []uint64 {
	hashes := slices.Clone(prefix)
	for len(hashes) < n {
		g.last++
		hashes = append(hashes, g.last)
	}
	return hashes
}

// wait draws an exponential duration with a mean in seconds.
func (g *generator) wait(mean float64) time.Duration {
	return time.Duration(g.rand.ExpFloat64() * mean * float64(time.Second))
}

// around draws a log-normal length with a mean and a coefficient of variation.
func (g *generator) around(mean, variation float64) int {
	s := math.Log(1 + variation*variation)
	return max(1, int(math.Exp(math.Log(mean)-s/2+math.Sqrt(s)*g.rand.NormFloat64())))
}

func keys(m map[string]float64) []string {
	var names []string
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}
