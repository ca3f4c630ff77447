// Package trajectory makes requests of tool-calling agents out of recorded
// conversations, for tests: each request as one client would spell it and as a
// careless one would, which lists tools out of a map, dumps schemas in random
// order, escapes what need not be escaped, and appends the results of parallel
// calls as they come in. The two mean the same.
//
// The recordings (tau-bench's airline agent) hold no tool definitions and no
// parallel calls. [Tools] are definitions in the manner of that agent's, and
// [Load] merges every second pair of consecutive calls into one batch.
package trajectory
