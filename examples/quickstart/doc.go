// Quickstart shows what prefix routing is worth: it sends the same traffic
// through a fleet twice, once with random routing and once with prefix routing,
// and prints one table.
//
//	go run ./examples/quickstart
//
// # The fleet
//
// Without configuration the fleet is simulated: four engines on loopback
// addresses (package client/fleettest), with vLLM's HTTP interface and a model
// of its scheduler and prefix cache. Their timing is assumed, so the times are
// no measurement of vLLM; what is real is the client, the HTTP between it and
// the engines, and the clock on the wall. To get through in less than a minute the
// engines are six times as fast as the simulator's default, a model of 70
// billion parameters on four data-centre GPUs.
//
// With -endpoints, or PREFIXWISE_ENDPOINTS, the same traffic goes to those
// instances instead, with OPENAI_API_KEY as the key. Each run then sends a
// cache_salt of its own, so that it finds no cache warm. An instance of vLLM
// needs --enable-prompt-tokens-details for the hit rate and room for prompts of
// 10,000 tokens. Answers differ from run to run there, and so do the prompts
// that quote them.
//
// # The traffic
//
// 1,200 requests in 20 seconds, in 114 threads that all live from beginning to
// end. Texts are seeded: every run sends the same ones at the same moments.
//
//   - 40 %: 48 people chat with an assistant. Ten messages each of about 120
//     words, after a system prompt that all have in common. Each waits for the
//     answer and sends it back as part of the next prompt.
//   - 30 %: 30 agents call tools. They have four tools and a system prompt in
//     common; each makes twelve requests, and each but the first brings the
//     result of a call, about 20 lines of a log. The calls are scripted
//     (tool_choice is "none"), so that the traffic is the same on every fleet.
//   - 30 %: questions about 36 documents of about 7,000 tokens, ten to each. Half
//     of them come from one person, who asks one after the other in a
//     conversation that begins with the document. Half come from ten people who
//     do not know of each other: the document is the system prompt, and each
//     question is a conversation of its own. Nothing but the program knows that
//     these belong together, so it says so with client.WithSession.
//
// A request is sent when it is due, or when the one before it in its thread is
// answered if that is later. The cache of one engine holds 146,000 tokens, a
// quarter of what the whole traffic would fill.
//
// # The page
//
// With -debug localhost:6060 the client's own page (client.Client.DebugHandler)
// is served there while the traffic runs, first for random and then for prefix
// routing.
//
// # The figures
//
// The hit rate is the sum of cached_tokens over the sum of prompt_tokens, from
// the usage of every answer. Beside it stands what a cache without bounds would
// give for the same requests (package examples/internal/ideal). The time to
// first token is measured by the program, from the call of
// CreateChatCompletionStream to the first content. Overflow is the share of
// requests that went elsewhere than the engine that prefix routing prefers,
// because that one was too busy.
//
// With -record the requests of each policy are written to a file that
// examples/replay reads: it tries other policies and fleets on them in a second.
//
// Placement depends on the addresses of the engines, which are others in every
// run, so the figures of prefix routing vary a little from run to run.
//
// The exit status is 0, 1 if a request failed, 2 for wrong arguments, and 130
// after an interrupt.
package main
