package vllmsim_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

// An engine in virtual time: two questions on one document, ten seconds apart.
func ExampleEngine() {
	e, err := vllmsim.NewEngine(vllmsim.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	document := strings.Repeat("It was a bright cold day in April. ", 1000)
	report := func(ev vllmsim.Event) {
		if ev.First {
			fmt.Printf("%.2fs: first token of %d, %d tokens cached\n", ev.At.Seconds(), ev.ID, ev.Cached)
		}
	}
	for i, question := range []string{"Who wrote this?", "What time is it?"} {
		now := time.Duration(i) * 10 * time.Second
		e.Advance(now, report)
		if _, err := e.Submit(now, vllmsim.Request{Tokens: vllmsim.Tokenize(document + question), OutputTokens: 100}); err != nil {
			fmt.Println(err)
		}
	}
	e.Advance(time.Hour, report)
	c := e.Counters()
	fmt.Printf("%d of %d prompt tokens cached\n", c.CachedTokens, c.PromptTokens)
	// Output:
	// 0.85s: first token of 1, 0 tokens cached
	// 10.02s: first token of 2, 8992 tokens cached
	// 8992 of 18009 prompt tokens cached
}

// A server in real time, two hundred times as fast as the assumed instance.
func ExampleServer() {
	sim, err := vllmsim.NewServer(vllmsim.Config{TimeScale: 200})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sim.Close()
	r := httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(`{"prompt": "Once upon a time", "max_tokens": 8}`))
	w := httptest.NewRecorder()
	sim.ServeHTTP(w, r)
	fmt.Println(w.Code, strings.Contains(w.Body.String(), `"completion_tokens":8`))
	// Output: 200 true
}
