package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/middleware"
)

// live is an arm under way on real instances, in real time.
type live struct {
	settings *settings
	trace    *trace
	layouts  []layout
	fleet    *realFleet
	clients  []*client.Client
	clientOf []int
	salt     string // "" with -apart reset
	places   chan struct{}
	began    time.Time
	index    map[string]int // instances by identity
	failing  atomic.Int32   // failures without a success so far, negative after one

	mu    sync.Mutex
	trial trial
	sent  int
}

// readyTimeout is how long a client may take to find its instances.
const readyTimeout = 30 * time.Second

// measure sends the trace through the product's own client to the fleet.
// watch is given a function that says how far it is.
func measure(ctx context.Context, s *settings, t *trace, layouts []layout, f *realFleet, a arm, watch func(status func() string) (stop func())) (*trial, error) {
	l := &live{
		settings: s, trace: t, layouts: layouts, fleet: f, index: map[string]int{},
		clientOf: assign(t, a, s.sticky, rand.New(rand.NewPCG(a.seed, 2))),
		places:   make(chan struct{}, s.concurrency),
		trial:    trial{kind: measured, arm: a},
	}
	for i, target := range f.targets {
		l.index[target.id] = i
		for rank := range s.ranks {
			l.index[fmt.Sprintf("%s#%d", target.id, rank)] = i
		}
	}
	if s.apart == apartReset {
		if err := f.reset(ctx); err != nil {
			return nil, err
		}
	} else {
		// Another arm's salt is another key: nothing of its cache is found.
		l.salt = fmt.Sprintf("replay-%016x", mix(uint64(time.Now().UnixNano())))
	}
	defer func() {
		for _, c := range l.clients {
			c.Close()
		}
	}()
	if err := l.connect(ctx, a); err != nil {
		return nil, err
	}

	sampler := newSampler(ctx, f)
	sampling, stop := context.WithCancel(ctx)
	var sampled sync.WaitGroup
	sampled.Go(func() { sampler.run(sampling) })
	seen := watch(l.status)
	err := l.send(ctx)
	seen()
	stop()
	sampled.Wait()
	if err != nil {
		return nil, err
	}
	sampler.read(ctx)
	l.trial.instances = sampler.sum
	if l.trial.arm.asked, err = l.asked(); err != nil {
		return nil, err
	}
	return &l.trial, ctx.Err()
}

// connect makes the clients and waits until each has its instances.
func (l *live) connect(ctx context.Context, a arm) error {
	options, err := a.policy.clientOptions(a.clients)
	if err != nil {
		return err
	}
	options = append(options, client.WithEndpoints(l.fleet.spec...), client.WithDataParallel(l.settings.ranks))
	if l.fleet.apiKey != "" {
		options = append(options, client.WithAPIKey(l.fleet.apiKey))
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for range a.clients {
		c, err := client.New(options...)
		if err != nil {
			return err
		}
		l.clients = append(l.clients, c)
		if err := c.Ready(ctx); err != nil {
			return fmt.Errorf("no instance is ready: %w", err)
		}
	}
	return nil
}

// hopeless is how many failures without a single success end a run: something
// is wrong with the requests or the fleet as a whole.
const hopeless = 32

// send sends everything when it is due and returns when all is answered.
func (l *live) send(ctx context.Context) error {
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	l.began = time.Now()
	var all sync.WaitGroup
	for _, r := range l.trace.opening() {
		all.Go(func() {
			due := r.at
			for ; r != nil; r = r.next {
				if !l.wait(ctx, due) {
					return
				}
				o, ok := l.one(ctx, r, due)
				if !ok {
					return
				}
				l.note(o, give)
				if r.next == nil {
					return
				}
				due = time.Since(l.began) + r.think
				if h := l.settings.horizon; h > 0 && due >= h {
					return
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// wait returns false when ctx ends before the run is so old.
func (l *live) wait(ctx context.Context, age time.Duration) bool {
	timer := time.NewTimer(time.Until(l.began.Add(age)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// note keeps an outcome, and gives up when nothing works.
func (l *live) note(o outcome, give context.CancelCauseFunc) {
	l.mu.Lock()
	l.trial.outcomes = append(l.trial.outcomes, o)
	l.mu.Unlock()
	if o.err == nil {
		l.failing.Store(-1 << 30)
	} else if l.failing.Add(1) == hopeless {
		give(fmt.Errorf("the first %d requests failed, the last with: %w", hopeless, o.err))
	}
}

// one sends one request when there is a place for it; false when ctx ended.
func (l *live) one(ctx context.Context, r *request, due time.Duration) (outcome, bool) {
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		return outcome{}, false
	}
	defer func() { <-l.places }()
	l.mu.Lock()
	l.sent++
	l.mu.Unlock()
	path, body, err := l.bodyOf(r)
	o := outcome{request: r.position, instance: -1, cached: -1, sent: time.Since(l.began), err: err}
	o.late = max(0, o.sent-due)
	if err == nil {
		l.ask(ctx, r, path, body, &o)
	}
	return o, ctx.Err() == nil
}

// bodyOf returns what to send where.
func (l *live) bodyOf(r *request) (path string, body []byte, err error) {
	if r.outline != nil && r.outline.body != nil {
		path, body, err = r.outline.send(l.fleet.model, r.output)
	} else {
		path = "/chat/completions"
		body, err = l.fleet.writer.body(l.trace, r, &l.layouts[r.position], l.fleet.model)
	}
	if err == nil && l.salt != "" {
		body, err = canon.Merge(body, map[string]json.RawMessage{"cache_salt": json.RawMessage(strconv.Quote(l.salt))})
	}
	return path, body, err
}

// asked returns what the clients asked their routers for each request: with it,
// a simulation has the same homes, salt and all.
func (l *live) asked() ([]affinity.Request, error) {
	length := l.trial.arm.policy.prefixLength()
	c, err := newCanonicalizer([]int{length})
	if err != nil {
		return nil, err
	}
	asked := make([]affinity.Request, len(l.trace.requests))
	for _, r := range l.trace.requests {
		path, body, err := l.bodyOf(r)
		if err != nil {
			return nil, err
		}
		o, err := c.outline(path, body)
		if err != nil {
			return nil, err
		}
		if in := r.outline; in != nil {
			o.session, o.tenant, o.cacheKey = in.session, in.tenant, in.cacheKey
		}
		asked[r.position] = o.request(length)
	}
	return asked, nil
}

// ask sends a body through the client that it falls to.
func (l *live) ask(ctx context.Context, r *request, path string, body []byte, o *outcome) {
	var done middleware.Done
	if in := r.outline; in != nil {
		ctx = client.WithCacheKey(client.WithTenant(client.WithSession(ctx, in.session), in.tenant), in.cacheKey)
	}
	ctx = client.WithTrace(ctx, &client.Trace{Done: func(d middleware.Done) { done = d }})
	c := l.clients[l.clientOf[r.position]]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BaseURL()+path, bytes.NewReader(body))
	if err != nil {
		o.err = err
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTPClient().Do(req)
	if err == nil {
		var text []byte
		if resp.StatusCode != http.StatusOK {
			text, _ = io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode != http.StatusOK {
			err = refusal(resp.Status, text, r.outline != nil)
		}
	}
	o.err = firstError(err, done.Err)
	o.first, o.total, o.attempts, o.overflow = done.FirstByte, done.Total, done.Attempts, done.Overflow
	o.prompt, o.cached, o.output = max(done.PromptTokens, 0), done.CachedTokens, max(done.CompletionTokens, 0)
	if i, ok := l.index[done.Endpoint]; ok && o.err == nil {
		o.instance = i
	}
	if o.err == nil && o.first == 0 { // not a stream: it came all at once
		o.first = o.total
	}
}

// refusal says why an engine refused a request. Where the prompt is somebody's,
// the engine's words are left out: some quote it.
func refusal(status string, answer []byte, private bool) error {
	var a struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Param   string `json:"param"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return errors.New(status)
	}
	why := a.Error.Type + " " + a.Error.Param
	if !private {
		why += fmt.Sprintf(" %.200s", a.Error.Message)
	}
	return fmt.Errorf("%s: %s", status, strings.TrimSpace(why))
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// status is what there is so far.
func (l *live) status() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	prompt, cached := 0, 0
	for _, o := range l.trial.outcomes {
		prompt, cached = prompt+o.prompt, cached+max(o.cached, 0)
	}
	return fmt.Sprintf("%d of %d answered, %d in flight, %d %% of the tokens from caches", len(l.trial.outcomes), len(l.trace.requests),
		l.sent-len(l.trial.outcomes), 100*cached/max(prompt, 1))
}
