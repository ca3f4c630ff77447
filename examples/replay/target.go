package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prefixwise/prefixwise/discovery"
)

// A target is one real instance.
type target struct {
	id          string
	base        string // URL without /v1
	hasCounters bool   // /metrics has the counters of the prefix cache
}

// realFleet is what is known of the instances to measure.
type realFleet struct {
	targets    []target
	spec       []string // as given with -endpoints
	model      string
	contextLen int  // tokens of prompt and answer, 0: unknown
	cache      int  // tokens of KV memory of one instance, the least of all; 0: unknown
	block      int  // tokens of one cache block, 0: unknown
	uncached   bool // an instance has prefix caching turned off
	writer     writer
	http       *http.Client
	apiKey     string
}

// answerTimeout bounds the questions that are asked before a run.
const answerTimeout = 2 * time.Minute

// connect finds out what serves at the endpoints.
func connect(ctx context.Context, s *settings) (*realFleet, error) {
	resolver, err := discovery.Static(s.endpoints...)
	if err != nil {
		return nil, err
	}
	endpoints, err := resolver.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	f := &realFleet{spec: s.endpoints, model: s.model, apiKey: os.Getenv("OPENAI_API_KEY"),
		http: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}}
	for _, e := range endpoints {
		t := target{id: e.ID, base: e.URL.String()}
		if err := f.identify(ctx, t.base); err != nil {
			f.close()
			return nil, fmt.Errorf("-endpoints: %w", err)
		}
		m, err := scrape(ctx, f.http, t.base)
		t.hasCounters = err == nil
		f.uncached = f.uncached || m.uncached
		f.cache, f.block = leastKnown(f.cache, m.cache), leastKnown(f.block, m.block)
		f.targets = append(f.targets, t)
	}
	return f, nil
}

// names returns the instances' identities.
func (f *realFleet) names() []string {
	var names []string
	for _, t := range f.targets {
		names = append(names, t.id)
	}
	return names
}

func leastKnown(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (f *realFleet) close() { f.http.CloseIdleConnections() }

// identify asks an instance for its models.
func (f *realFleet) identify(ctx context.Context, base string) error {
	var list struct {
		Data []struct {
			ID     string `json:"id"`
			MaxLen *int   `json:"max_model_len"`
		} `json:"data"`
	}
	if err := f.call(ctx, http.MethodGet, base+"/v1/models", nil, &list); err != nil {
		return err
	}
	if len(list.Data) == 0 {
		return fmt.Errorf("%s serves no model", base)
	}
	if f.model == "" {
		f.model = list.Data[0].ID
	}
	var served []string
	for _, m := range list.Data {
		served = append(served, m.ID)
		if m.ID != f.model {
			continue
		}
		if m.MaxLen != nil {
			f.contextLen = leastKnown(f.contextLen, *m.MaxLen)
		}
		return nil
	}
	return fmt.Errorf("%s does not serve %q; it serves %s: choose with -model", base, f.model, strings.Join(served, ", "))
}

// Two prompts of this many words show how many tokens a word has.
const (
	fewWords  = 50
	manyWords = 850
)

// calibrate asks the first instance how long prompts of known length are.
func (f *realFleet) calibrate(ctx context.Context) error {
	var tokens [2]float64
	for i, n := range []int{fewWords, manyWords} {
		w := writer{tokensPerWord: 1}
		probe := &request{prompt: n, output: 1}
		l := layout{messages: []span{{"user", n}}, tail: mix(uint64(time.Now().UnixNano()))}
		body, err := w.body(&trace{block: n + 1}, probe, &l, f.model)
		if err != nil {
			return err
		}
		var answer struct {
			Usage *struct {
				Prompt int `json:"prompt_tokens"`
			} `json:"usage"`
		}
		body = bytes.Replace(body, []byte(`"stream":true`), []byte(`"stream":false`), 1)
		if err := f.call(ctx, http.MethodPost, f.targets[0].base+"/v1/chat/completions", body, &answer); err != nil {
			return fmt.Errorf("a probe for the length of words: %w", err)
		}
		if answer.Usage == nil || answer.Usage.Prompt == 0 {
			return errors.New("a probe for the length of words: the answer has no usage.prompt_tokens")
		}
		tokens[i] = float64(answer.Usage.Prompt)
	}
	f.writer.tokensPerWord = (tokens[1] - tokens[0]) / (manyWords - fewWords)
	f.writer.overhead = max(0, tokens[0]-fewWords*f.writer.tokensPerWord)
	if f.writer.tokensPerWord < .1 || f.writer.tokensPerWord > 20 {
		return fmt.Errorf("a probe for the length of words: %d words are %.0f tokens and %d are %.0f, which makes no sense", fewWords, tokens[0], manyWords, tokens[1])
	}
	return nil
}

// errNoReset is wrapped when an instance cannot forget its cache.
var errNoReset = errors.New("the instance cannot reset its cache (vLLM: VLLM_SERVER_DEV_MODE=1); use -apart salt")

// reset empties the caches of all instances.
func (f *realFleet) reset(ctx context.Context) error {
	for _, t := range f.targets {
		if err := f.call(ctx, http.MethodPost, t.base+"/reset_prefix_cache", nil, nil); err != nil {
			return fmt.Errorf("%w: %w", errNoReset, err)
		}
	}
	return nil
}

// call sends a request outside any measurement, to one instance.
func (f *realFleet) call(ctx context.Context, method, url string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if f.apiKey != "" && strings.Contains(url, "/v1/") {
		req.Header.Set("Authorization", "Bearer "+f.apiKey)
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %.300s", method, url, resp.Status, text)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s %s: the answer is not as expected: %w", method, url, err)
	}
	return nil
}
