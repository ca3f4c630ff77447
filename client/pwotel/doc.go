// Package pwotel reports a Prefixwise client's calls to OpenTelemetry.
//
//	c, err := client.New(client.WithEndpoints(…), client.WithObserver(pwotel.New()))
//
// What it reports follows the GenAI semantic conventions of version 1.41.0, the
// last one that OpenTelemetry published with the general conventions and the
// one that backends know. (Since then they have a repository of their own,
// whose version 0.1.0 renames gen_ai.client.operation.duration and
// …time_to_first_chunk to gen_ai.client.inference.…; a View of the SDK renames
// them for those who want that now.) What they have no name for is under
// "prefixwise.". Requests that generate nothing (lists of models, files) are not
// reported, and never the text of prompts and answers or of engines' errors.
//
// # Traces
//
// A call is a span of kind CLIENT, a child of the span in its context. It is
// named by operation and model, as in "chat llama", and lasts until the answer's
// last byte, with all attempts. Its attributes:
//
//   - gen_ai.operation.name, gen_ai.provider.name, gen_ai.request.model,
//     gen_ai.request.stream; gen_ai.conversation.id, if there is a session
//     (client.WithSession)
//   - gen_ai.usage.input_tokens, gen_ai.usage.output_tokens and
//     gen_ai.usage.cache_read.input_tokens, where the engine reports them
//   - gen_ai.response.time_to_first_chunk, in seconds, of streams
//   - server.address and server.port of the last attempt's endpoint
//   - error.type, if there was no complete answer: an HTTP status such as "503"
//     or a name such as "connect_timeout", see middleware.Done.Cause
//   - prefixwise.endpoint, prefixwise.strategy, prefixwise.reason and
//     prefixwise.overflow of the last attempt, and prefixwise.attempts
//
// Each attempt is a child of it, named "attempt", with the endpoint, the reason,
// prefixwise.home (the endpoint that is preferred), prefixwise.attempt (from 1),
// http.response.status_code and error.type. So the time at each endpoint and the
// wait between attempts can be seen. The attempt's trace context is sent to the
// engine by the propagator; vLLM's own spans (--otlp-traces-endpoint) become its
// children.
//
// # Metrics
//
//   - gen_ai.client.operation.duration, a histogram in s
//   - gen_ai.client.operation.time_to_first_chunk, a histogram in s, of streams
//   - gen_ai.client.token.usage, a histogram in {token}, by gen_ai.token.type
//   - prefixwise.client.prompt_tokens and prefixwise.client.cached_tokens,
//     counters in {token} over the calls for which the engine reported both, so
//     that their ratio is the token hit rate
//   - prefixwise.client.attempts, a counter in {attempt}, by prefixwise.reason,
//     prefixwise.overflow, and error.type where one failed
//
// All but the last have gen_ai.operation.name, gen_ai.provider.name and
// gen_ai.request.model, the first one error.type too.
//
// The names of models come from callers, so the first 32 of them are told apart
// and the others are "_OTHER"; one that no endpoint serves is always "_OTHER".
// Endpoints are an attribute of metrics only with [WithEndpointMetrics].
package pwotel
