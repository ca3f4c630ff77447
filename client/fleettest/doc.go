// Package fleettest starts a fleet of simulated vLLM instances on loopback
// addresses, in the spirit of net/http/httptest: for tests of programs that use
// Prefixwise, for examples, and to see what happens when instances fail.
//
//	fleet := fleettest.New(4, fleettest.Config{TimeScale: 20})
//	defer fleet.Close()
//	c, err := client.New(client.WithEndpoints(fleet.URLs()...))
//
// Each instance has vLLM's paths (chat completions, completions, embeddings,
// responses, messages, models, health, metrics), streams, error bodies and
// metric names, and a prefix cache of 16-token blocks: a prompt takes as long
// as its uncached tokens need, and usage says how many were cached. Answers are
// words without meaning, the same for equal prompts on every instance; a function
// is called, with made-up arguments, when tool_choice forces it. How fast an
// instance is, is assumed and not measured: see the fields of [Config].
//
// [Fleet.Stats] tells what each instance has done. [Fleet.Kill],
// [Fleet.Restart], [Fleet.Drain] and [Fleet.SetFault] make instances fail, hang,
// slow down, cut streams or refuse requests while a test runs.
package fleettest
