// Package client is an OpenAI client that sends each request to the instance
// of a self-hosted fleet that already holds the beginning of its prompt.
//
// It differs from the *openai.Client that it embeds in these ways:
//
//  1. It knows many endpoints: a list, or what DNS says, watched for changes,
//     health, and the models that each serves.
//  2. Requests are rewritten so that prompts that mean the same are
//     byte-identical ([WithCanonicalization]).
//  3. The endpoint is picked by hashing the prompt's prefix, so all processes
//     agree without talking to each other, and another one is used where waiting
//     for the preferred one costs more than computing the prompt elsewhere
//     ([WithStrategy]).
//  4. A failed request is sent to another endpoint, as long as the caller has
//     nothing of an answer ([WithRetries]).
//  5. A stream that is cut, aborted, or ends early is an [*Error]; the bare
//     client reports a clean io.EOF.
//
// Everything else is go-openai's: every method, its types, its errors.
//
//	c, err := client.New(client.WithEndpoints("http://10.0.0.1:8000", "http://10.0.0.2:8000"))
//	if err != nil { … }
//	defer c.Close()
//	resp, err := c.CreateChatCompletion(ctx, openai.ChatCompletionRequest{…})
//
// The loop of an agent holds a [Session], which keeps the transcript, sends an
// engine's answers back as they came, and tells when history was rewritten.
//
// Other SDKs get the same through [Client.HTTPClient] or [Client.Transport]
// together with [Client.BaseURL].
//
// # Does it help?
//
// [Client.Check] asks the fleet what stands in the way. [Stats.Advice] says from
// the client's own traffic whether prefix routing is worth it, [WithExperiment]
// compares it with another strategy on that traffic, and [Client.DebugHandler]
// shows all of it on a page. They see hashes and lengths, never text.
//
// # Layers
//
// A call goes through package canon (canonical bytes and prefix hashes),
// package affinity (the choice of an endpoint) and package middleware
// (retries, streams, connections); package discovery keeps the set of
// endpoints up to date beside it.
package client
