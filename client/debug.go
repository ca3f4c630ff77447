package client

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DebugHandler returns a page that shows the fleet as this client sees it:
// health, load, shares, hit rates, times to first token, what the prompts
// share, where they part, the experiment and the advice. It needs no script and
// nothing from elsewhere. "?format=json", or an Accept header that asks for
// application/json, gives the same as JSON; "?refresh=5" loads the page anew
// every five seconds.
//
// Prompts and conversations are shown as hashes and lengths, never as text; the
// names and addresses of endpoints and models are shown as they are. Anyone who
// can reach the handler can read them, so serve it where only operators are:
//
//	go http.ListenAndServe("localhost:6060", c.DebugHandler())
func (c *Client) DebugHandler() http.Handler {
	return &debugHandler{client: c}
}

type debugHandler struct {
	client *Client

	mu      sync.Mutex // advice takes a while: those who wait share it
	advice  Advice
	advised time.Time
}

// adviceAge is for how long the page shows the same advice. It comes from
// minutes of traffic, and takes some tenths of a second.
const adviceAge = 30 * time.Second

func (h *debugHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", debugPolicy)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "this page can only be read", http.StatusMethodNotAllowed)
		return
	}
	view := h.view()
	var b bytes.Buffer
	var err error
	if wantsJSON(r) {
		header.Set("Content-Type", "application/json")
		e := json.NewEncoder(&b)
		e.SetIndent("", "  ")
		err = e.Encode(view)
	} else {
		header.Set("Content-Type", "text/html; charset=utf-8")
		if n, parseErr := strconv.Atoi(r.URL.Query().Get("refresh")); parseErr == nil && n > 0 && n <= 3600 {
			view.Refresh = n
		}
		err = debugPage.Execute(&b, view)
	}
	if err != nil { // of the page's own making: nothing in it depends on the request
		http.Error(w, "the page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(b.Bytes()) // a reader that has gone away
}

// wantsJSON tells whether a program asks. A browser lists text/html.
func wantsJSON(r *http.Request) bool {
	switch r.URL.Query().Get("format") {
	case "json":
		return true
	case "html":
		return false
	}
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// advise returns the advice, at most adviceAge old.
func (h *debugHandler) advise(s Stats) Advice {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.advice.Verdict == "" || h.advice.Verdict == TooLittleData || time.Since(h.advised) > adviceAge {
		h.advice, h.advised = s.Advice(), time.Now()
	}
	return h.advice
}

// debugView is what the page shows, and its JSON.
type debugView struct {
	Time        time.Time       `json:"time"`
	Since       time.Time       `json:"since"`
	Strategy    Strategy        `json:"strategy"`
	Calls       uint64          `json:"calls"`
	Failed      uint64          `json:"failed"`
	Refused     uint64          `json:"refused"`
	Canceled    uint64          `json:"canceled"`
	Retries     uint64          `json:"retries"`
	Overflow    overflow        `json:"overflow"`
	InFlight    int             `json:"in_flight"`
	HitRate     part            `json:"hit_rate"`
	Foreseen    part            `json:"foreseen_hit_rate"`
	FirstByte   debugTimes      `json:"first_token"`
	Total       debugTimes      `json:"total"`
	Endpoints   []debugEndpoint `json:"endpoints"`
	Prefixes    []hotPrefix     `json:"hottest_prefixes"`
	Divergences []divergence    `json:"divergences"`
	Experiment  *Experiment     `json:"experiment,omitempty"`
	Advice      Advice          `json:"advice"`

	Refresh int `json:"-"` // seconds
}

type debugEndpoint struct {
	ID          string   `json:"id"`
	URL         string   `json:"url"`
	Models      []string `json:"models"`
	Health      string   `json:"health"`
	Aside       bool     `json:"aside"`
	Ejections   uint64   `json:"ejections"`
	InFlight    int      `json:"in_flight"`
	Gauges      bool     `json:"gauges"`
	Running     int      `json:"running"`
	Waiting     int      `json:"waiting"`
	CacheTokens int      `json:"cache_tokens"`
	Requests    uint64   `json:"requests"`
	Share       float64  `json:"share"`
	Failed      uint64   `json:"failed"`
	Overflow    overflow `json:"overflow"`
	HitRate     part     `json:"hit_rate"`
	Foreseen    part     `json:"foreseen_hit_rate"`
}

// overflow counts by reason.
type overflow map[string]uint64

// Total is the sum over all reasons.
func (o overflow) Total() (n uint64) {
	for _, v := range o {
		n += v
	}
	return n
}

// part is a number of tokens among others.
type part struct {
	Tokens uint64 `json:"tokens"`
	Of     uint64 `json:"of"`
}

// debugTimes are Quantiles in milliseconds.
type debugTimes struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
}

func timesOf(q Quantiles) debugTimes {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return debugTimes{q.Count, ms(q.P50), ms(q.P90), ms(q.P99)}
}

func (h *debugHandler) view() *debugView {
	c := h.client
	s := c.Stats()
	calls, _ := c.collector.sample.copy()
	v := &debugView{
		Time: time.Now(), Since: c.collector.since, Strategy: s.Strategy,
		Calls: s.Calls, Failed: s.Failed, Refused: s.Refused, Canceled: s.Canceled, Retries: s.Retries,
		Overflow: overflow{}, HitRate: part{s.CachedTokens, s.PromptTokens},
		FirstByte: timesOf(s.FirstByte), Total: timesOf(s.Total),
		Endpoints: []debugEndpoint{}, Prefixes: hottest(calls), Divergences: c.collector.history.divergences(),
		Experiment: c.Experiment(), Advice: h.advise(s),
	}
	for _, e := range s.Endpoints {
		v.Endpoints = append(v.Endpoints, debugEndpoint{
			ID: e.ID, URL: e.URL, Models: e.Models, Health: e.Health, Aside: e.Aside, Ejections: e.Ejections,
			InFlight: e.InFlight, Gauges: e.Gauges, Running: e.Running, Waiting: e.Waiting, CacheTokens: e.CacheTokens,
			Requests: e.Requests, Share: e.Share, Failed: e.Failed, Overflow: e.Overflow,
			HitRate: part{e.CachedTokens, e.PromptTokens}, Foreseen: part{e.ForeseenTokens, e.ForeseenOf},
		})
		v.InFlight += e.InFlight
		v.Foreseen.Tokens += e.ForeseenTokens
		v.Foreseen.Of += e.ForeseenOf
		for reason, n := range e.Overflow {
			v.Overflow[reason] += n
		}
	}
	return v
}
