// Package vllmsim models one vLLM instance closely enough to study where
// requests should go: what its prefix cache holds, how long a prompt waits and
// computes, and what goes over the wire.
//
// It has three layers, each usable without the one above it:
//
//   - [Engine] is the model of the scheduler and the cache. It has no clock and
//     no goroutine: the caller says what time it is, so a replay of an hour of
//     traffic takes seconds. Requests come as token ids or as precomputed block
//     hashes.
//   - [Tokenize] and [ChatPrompt] turn requests into token ids, with a tokenizer and a
//     chat template of this package's own. Requests that differ only where a
//     real engine would not notice (white space between JSON members, string
//     escapes, the member order of typed objects) give the same tokens; a
//     different order of tools, schema keys or tool results gives others.
//   - [Server] speaks HTTP with vLLM's paths, bodies, streams, errors and
//     metrics, and drives an Engine in real time. It can be told to misbehave
//     with [Server.SetFault].
//
// # What the numbers mean
//
// The timing constants (see [Config]) are assumed, not measured: they stand for
// a model of the 70-billion-parameter class on four data-centre GPUs. Nothing
// that comes out of this package is a measurement of vLLM.
//
// # What is not modelled
//
// Speculative decoding, parallel or pipelined engine steps, network time,
// tokenization time, swapping to host memory, priorities, stop sequences,
// log-probabilities and the meaning of the text: answers are words drawn from a
// fixed list by a hash of the prompt, the same on every instance. A function is
// called only when tool_choice forces it, with made-up arguments.
package vllmsim
