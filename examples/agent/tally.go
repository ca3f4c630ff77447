package main

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/examples/internal/ideal"
)

// teller asks on behalf of one session.
type teller struct {
	client *client.Client
	model  string
	tally  *tally
	places map[string]bool // the instances that have answered
}

// tally counts over all sessions. It is safe for concurrent use.
type tally struct {
	mu               sync.Mutex
	complete, stayed int // sessions
	sent             []openai.ChatCompletionRequest
	errors           int
	firstError       error
	prompt, cached   int
	reported         bool // the engines say what came from their caches
}

func (t *tally) sending(request openai.ChatCompletionRequest, messages []openai.ChatCompletionMessage) {
	request.Messages = messages
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = append(t.sent, request)
}

func (t *tally) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors++
	if t.firstError == nil {
		t.firstError = err
	}
}

func (t *tally) answered(u openai.Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prompt += u.PromptTokens
	if u.PromptTokensDetails != nil {
		t.cached += u.PromptTokensDetails.CachedTokens
		t.reported = true // some versions of vLLM leave it out when it is zero
	}
}

// ended notes the end of a session.
func (t *tally) ended(one *teller, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if t.firstError == nil {
			t.firstError = err
		}
		return
	}
	t.complete++
	if len(one.places) == 1 {
		t.stayed++
	}
}

// status is what there is so far, for the progress line.
func (t *tally) status() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%d complete, %d requests sent", t.complete, len(t.sent))
}

// report prints the figures. Nothing runs any more.
func (t *tally) report(w io.Writer, s settings, sessions int) error {
	var endless ideal.Cache
	for _, request := range t.sent {
		if err := endless.Add(request); err != nil {
			return err
		}
	}
	fleet := "the instances of -endpoints"
	if s.simulated() {
		fleet = fmt.Sprintf("%d SIMULATED engines", instances)
	}
	hit := "unknown: start vLLM with --enable-prompt-tokens-details"
	if t.reported {
		hit = percent(float64(t.cached) / float64(max(t.prompt, 1)))
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "fleet\t%s\n", fleet)
	fmt.Fprintf(out, "sessions\t%d of %d complete, %d of them on one instance throughout\n", t.complete, sessions, t.stayed)
	fmt.Fprintf(out, "requests\t%d\n", len(t.sent))
	fmt.Fprintf(out, "errors\t%d\n", t.errors)
	fmt.Fprintf(out, "hit rate\t%s\n", hit)
	fmt.Fprintf(out, "infinite cache\t%s (computed with the simulator's tokenizer: every leading block of 16 tokens that an earlier request had)\n",
		percent(endless.HitRate()))
	return out.Flush()
}

func percent(r float64) string { return fmt.Sprintf("%.1f %%", 100*r) }
