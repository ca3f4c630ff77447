package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/examples/internal/progress"
	"github.com/prefixwise/prefixwise/examples/internal/trial"
)

// runArm sends the whole traffic with one policy.
func runArm(ctx context.Context, s settings, m mix, policy client.Strategy, page *page, stderr io.Writer) (result, error) {
	var fleet discovery.Resolver
	var err error
	if s.endpoints == "" {
		// A new fleet for every policy: its caches are empty.
		sim := fleettest.New(m.instances, fleettest.Config{CacheTokens: m.cacheTokens, TimeScale: m.speed})
		defer sim.Close()
		fleet, err = discovery.Static(named(sim)...)
	} else {
		fleet, err = discovery.Parse(s.endpoints)
		ctx = client.WithExtraBody(ctx, map[string]any{
			"cache_salt": fmt.Sprintf("quickstart-%s-%d", policy, time.Now().UnixNano()),
		})
	}
	if err != nil {
		return result{}, err
	}
	c, err := client.New(
		client.WithResolver(fleet),
		client.WithAPIKey(os.Getenv("OPENAI_API_KEY")),
		client.WithStrategy(policy),
	)
	if err != nil {
		return result{}, err
	}
	defer c.Close()
	if c.Stats().Strategy != policy { // nothing else changes what was asked for
		return result{}, errors.New("PREFIXWISE_DISABLED turns prefix routing off, so there is nothing to compare; unset it")
	}
	page.show(c)
	model, err := trial.ModelOf(ctx, c, s.model)
	if err != nil {
		return result{}, err
	}
	var log *os.File
	if s.record != "" { // now, not after the traffic: it may be impossible
		if log, err = os.Create(fmt.Sprintf("%s-%s.jsonl", s.record, policy)); err != nil {
			return result{}, err
		}
		defer log.Close()
	}
	a := &arm{client: c, model: model, started: time.Now()}
	title := fmt.Sprintf("%s: %d requests in %.0f s", policy, m.requests(), m.span.Seconds())
	stop := progress.Show(stderr, title, a.status)
	var threads sync.WaitGroup
	for _, t := range m.threads() {
		threads.Go(func() { a.run(ctx, t) })
	}
	threads.Wait()
	stop()
	if log != nil {
		if ctx.Err() != nil {
			os.Remove(log.Name()) // rather than a part that looks like the whole
		} else if err := errors.Join(a.record(log), log.Close()); err != nil {
			return result{}, err
		}
	}
	return a.result(policy), ctx.Err()
}

// named gives the simulated instances identities that are the same in every run,
// and with them prompts have the same homes, whatever ports are free.
func named(sim *fleettest.Fleet) []string {
	urls := sim.URLs()
	for i, url := range urls {
		urls[i] = sim.Name(i) + "=" + url
	}
	return urls
}

// arm is one policy at work.
type arm struct {
	client  *client.Client
	model   string
	started time.Time

	mu   sync.Mutex
	sent []openai.ChatCompletionRequest // in the order of sending
	done []answer
}

// status is what there is so far, for the progress line.
func (a *arm) status() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	prompt, cached := 0, 0
	for _, r := range a.done {
		prompt, cached = prompt+r.prompt, cached+r.cached
	}
	return fmt.Sprintf("%d done after %.0f s, %d %% of the tokens from caches",
		len(a.done), time.Since(a.started).Seconds(), 100*cached/max(prompt, 1))
}

// answer is what became of one request.
type answer struct {
	text     string
	ttft     time.Duration
	endpoint string
	overflow bool
	prompt   int
	cached   int
	reported bool // the engine says what came from its cache
	written  int  // tokens of the answer
	err      error

	// For -record: what was sent, when, and in which session.
	request openai.ChatCompletionRequest
	at      time.Duration
	session string
}

// run lives one thread. A request that fails ends it: there is no answer to go
// on from.
func (a *arm) run(ctx context.Context, t *thread) {
	if t.session != "" {
		ctx = client.WithSession(ctx, t.session)
	}
	messages := t.head
	for _, turn := range t.turns {
		if !sleepUntil(ctx, a.started.Add(turn.due)) {
			return
		}
		// Earlier requests are still to be read, so their messages are not written over.
		messages = append(messages[:len(messages):len(messages)], turn.add...)
		answer := a.ask(ctx, t.session, openai.ChatCompletionRequest{
			Model: a.model, Messages: messages, Tools: t.tools, MaxCompletionTokens: turn.limit,
			StreamOptions: &openai.StreamOptions{IncludeUsage: true},
		})
		if answer.err != nil {
			return
		}
		if t.remembers() {
			messages = append(messages, openai.ChatCompletionMessage{
				Role: openai.ChatMessageRoleAssistant, Content: answer.text, ToolCalls: turn.calls,
			})
		} else {
			messages = t.head
		}
	}
}

// ask sends one request and notes what became of it.
func (a *arm) ask(ctx context.Context, session string, request openai.ChatCompletionRequest) answer {
	if len(request.Tools) > 0 {
		request.ToolChoice = "none"
	}
	a.mu.Lock()
	a.sent = append(a.sent, request)
	a.mu.Unlock()
	at := time.Since(a.started)
	answer := a.stream(ctx, request)
	answer.request, answer.at, answer.session = request, at, session
	if answer.err == nil || ctx.Err() == nil {
		a.mu.Lock()
		a.done = append(a.done, answer)
		a.mu.Unlock()
	}
	return answer
}

func (a *arm) stream(ctx context.Context, request openai.ChatCompletionRequest) (r answer) {
	begin := time.Now()
	stream, err := a.client.CreateChatCompletionStream(ctx, request)
	if err != nil {
		r.err = err
		return r
	}
	defer stream.Close()
	r.endpoint = stream.Header().Get("X-Prefixwise-Endpoint")
	r.overflow = stream.Header().Get("X-Prefixwise-Overflow") != ""
	var thoughts string
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.err = err
			return r
		}
		if u := chunk.Usage; u != nil {
			r.prompt, r.written = u.PromptTokens, u.CompletionTokens
			if u.PromptTokensDetails != nil {
				r.cached, r.reported = u.PromptTokensDetails.CachedTokens, true
			}
		}
		for _, c := range chunk.Choices {
			if r.ttft == 0 && (c.Delta.Content != "" || c.Delta.ReasoningContent != "") {
				r.ttft = time.Since(begin)
			}
			r.text += c.Delta.Content
			thoughts += c.Delta.ReasoningContent
		}
	}
	if r.text == "" { // a model that thinks may not have come to an answer
		r.text = thoughts
	}
	if r.ttft == 0 {
		r.err = errors.New("an answer without any text")
	}
	return r
}

// sleepUntil returns false when ctx ends first.
func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
