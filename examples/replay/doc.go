// Replay shows what prefix routing would be worth for recorded traffic: it sends
// a trace or a log of requests through a fleet with one policy after the other,
// compares the token hit rate, the time to first token, and how evenly the work is
// spread, and says whether it pays.
//
//	go run ./examples/replay -trace requests.jsonl -instances 4 -html report.html
//
// # The fleet
//
// The engines are the model of internal/vllmsim in virtual time: paged prefix
// cache, chunked prefill, continuous batching. Its timing is assumed (a model of
// 70 billion parameters on four data-centre GPUs; -speed divides it), so every
// figure is a simulated one. An hour of traffic takes about a second.
//
// The routers are those of package affinity, as they are, with a clock of their
// own. With -clients 16, sixteen of them share the traffic by lot (or by
// conversation, with -sticky), and each sees only its own requests and, once a
// second, the engines' gauges.
//
// -engine sets the engine's numbers, one by one or from a file: our own form, or
// what internal/e2e/probe_speed.py has measured.
//
// Where a conversation has its home is decided by a hash, and one draw of it can
// be lucky: every arm is run with several (-seeds), and the mean and the spread
// are shown. With -names the engines have the identities of your instances, and
// each prompt has its home where it has it there.
//
// # Real endpoints
//
// With -endpoints the same traffic goes to running instances in real time,
// through package client as a program would use it, and each row of the table is
// followed by what the simulation says of the same run, with the same homes for the
// same prompts:
//
//	go run ./examples/replay -endpoints http://10.0.0.1:8000,http://10.0.0.2:8000 \
//		-trace gen:heads:users=8,requests=20 -engine speed.json
//
// Requests are streamed chats. A trace of hashes is given text: the same words
// for the same hash, as many as an instance says make up the tokens. The arms
// take turns on the same traffic with their caches kept apart (-apart). The hit
// rate is that of the engines' own counters (/metrics, read before, during and
// after), beside it stands that of the answers' cached_tokens. What fails is
// counted and shown, and the run goes on.
//
// # The traffic
//
// What kind of file it is, is found out by content (see read.go). A trace has one
// JSON object a line, in the format of the traces published with Mooncake
// (FAST'25): timestamp in milliseconds, input_length and output_length in tokens,
// and hash_ids, one for each block of 512 tokens, equal where the prompts are
// equal from the beginning to the end of that block. Two members are optional:
// session, which otherwise is worked out from the hashes, and, on the first line,
// block_size. There is no text; where a policy counts characters there are four to
// a token.
//
// Logs of requests, and agents' trajectories, have text. Package canon finds the
// boundaries at which their prompts can be shared, as in the client. What two
// prompts share beyond their last common boundary is counted for chats only, and only
// when the log has usage. A recording of middleware.Recorder has these boundaries
// and no text. Lengths in tokens are those of the log's usage, or a token is 4 bytes.
//
// gen:heads, gen:chat and gen:documents make traffic instead (see generate.go).
//
// # The verdict
//
// It compares the best policy that looks at prefixes with the best that does not,
// by mean time to first token, with the most clients. It says yes where that is
// shorter and 3 points more are hit, or where it is shorter by 5 % and by more than
// the spread of several runs.
//
// # The policies
//
// Each is a strategy of package affinity, with parameters after colons:
// fixed-prefix:length=16384:concurrency=24, bounded-load:factor=1.25:floor=4,
// affinity:gauges=0 (as if the engines had no /metrics). The concurrency of
// fixed-prefix is divided among the clients. The rate of overflow is that of the
// requests that would have gone elsewhere in an idle and healthy fleet.
package main
