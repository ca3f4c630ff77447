// Agent runs tool-calling agents through the drop-in client, each as a session.
//
//	go run ./examples/agent
//	go run ./examples/agent -trajectories FILE -n 50
//
// An agent's requests all begin alike: system prompt, tools, and everything that
// was said so far. A [client.Session] sends that as it was said, and its requests
// prefer the instance of the one before, which has it in its cache.
//
// Without arguments a dozen agents serve the customers of a bicycle workshop.
// loop.go has the loop as a program of yours would have it: ask, run the tools
// that the model calls, send their results, until it calls none. The fleet is
// simulated unless -endpoints or PREFIXWISE_ENDPOINTS names one. A simulated
// model answers with words without meaning and calls no tools, so there it is
// made to (workshop.go); a real fleet decides for itself and must have tool
// calling enabled (vLLM: --enable-auto-tool-choice).
//
// With -trajectories recorded sessions are replayed: a file in the format of
// tau-bench, an array of objects whose "traj" holds the messages of a session.
// Each message of the assistant becomes one request with the messages before
// it, under [client.WithSession]; what the model answers now is thrown away for
// what it answered then.
//
// Beside the hit rate, the share of prompt tokens that came from a cache, stands
// what a cache without bounds would give for the same requests in the order in
// which they were sent. It is computed, not run: see package
// examples/internal/ideal.
//
// The exit status is 0, 1 if a request failed, 2 for wrong arguments, and 130
// after an interrupt.
package main
