// Package canon turns the body of an LLM request into canonical bytes and the
// hashes of its prompt's prefixes: one meaning, one byte string.
//
// An engine such as vLLM reuses the work on a prompt's beginning when it has
// seen the same tokens before. Clients lose that when they serialize the same
// prompt in different ways from turn to turn: tools out of a map, schema keys
// in random order, "\u003c" for "<", a string here and a list of one text part
// there. canon removes such differences, and tells a router how far two
// prompts are equal.
//
//	c, err := canon.New(canon.Options{})
//	r, err := c.Canonicalize(canon.Chat, body)
//	send(r.Body)                // canonical bytes
//	route(r.Head, r.Root)       // what the engine would have cached
//
// It is pure: bytes in, bytes and hashes out. It knows no HTTP and no endpoints.
//
// # How far it goes
//
// [Wire] changes nothing that the model sees. [Stable], the default, can change
// the order in which the model sees tools, schema keywords and the results of
// one parallel batch of tool calls, and turns a single text part into the equal
// string; it never changes content. [Strong] also sorts the properties of tool
// schemas.
//
// No level reorders turns, joins or splits text parts, trims, normalises
// Unicode, rewrites ids or arguments, or touches response_format and its kin.
// Numbers keep the digits they were written with. Members that canon does not
// know are kept, in sorted place, with their order inside.
//
// # What passes through untouched
//
// A body that decoders disagree on (duplicate member names, unpaired
// surrogates, invalid UTF-8), that nests deeper than 128, that is not one JSON
// object, or whose messages are not a list is sent as it came, and hashed as
// raw bytes. [Result.Diagnosis] says why. Nothing is ever refused but a body
// over the size limit.
//
// # What is hashed
//
// What vLLM puts into its tokens or its block hash: the model or adapter, chat
// template and its arguments, documents, reasoning effort, cache salt, tools,
// system and developer text, and the messages with their tool calls, reasoning
// and images. Not sampling, streaming, metadata, user or token limits, and of
// Anthropic's shape not the block of attribution that Claude Code changes with
// each request, which vLLM leaves out of the prompt. A [Boundary] is set after
// the head, the tools and each message, and at 1, 2, 4, 8 … KiB of text inside
// a message.
//
// # Where things are
//
// A body's way through the package: parse.go, scan.go and names.go turn it into
// a flat list of nodes (node.go) and are the guard, with marks_amd64.go or skim.go
// to find where strings end; shape.go says which fields are typed; write.go and
// root.go write it, with messages.go, batch.go, tools.go and schema.go for what
// has rules of its own; prompt.go, turn.go and hash.go hash what was written.
// canon.go and work.go put that together, toolcache.go remembers tools, merge.go
// sets members of a body.
//
// Beside it, for people: outline*.go lays a prompt out as text, diff*.go finds
// where two prompts part and why, lint*.go and volatile*.go find what will make
// them part.
package canon
