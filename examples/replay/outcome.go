package main

import (
	"time"
)

// An outcome is what became of one request, sent to whatever fleet.
type outcome struct {
	request  int           // position in the trace
	sent     time.Duration // since the run began
	late     time.Duration // how long after it was due, for want of a free place (-concurrency)
	first    time.Duration // to the first token, since it was sent
	total    time.Duration // to the last
	prompt   int           // tokens
	cached   int           // tokens of the prompt that came from a cache; -1: the engine did not say
	output   int           // tokens
	instance int           // that answered, -1: none did
	overflow bool          // it would have gone elsewhere in an idle and healthy fleet
	attempts int
	err      error
}

// served is what one instance did during a run, by its own counters.
type served struct {
	name          string
	queries, hits float64 // prompt tokens looked up in the cache, and found there
	counted       bool    // the counters could be read
}

// The kinds of run.
const (
	simulated = "simulated"
	measured  = "measured"  // on real endpoints
	predicted = "predicted" // the simulation of a run that was measured too
)

// A trial is all that was seen of one arm.
type trial struct {
	kind      string
	arm       arm
	outcomes  []outcome // in the order in which they ended
	instances []served
	changes   []fleetChange
	window    time.Duration // the ten minutes from here on are measured apart, if windowed
	windowed  bool
}

// fleetChange is an instance that came or left during a run.
type fleetChange struct {
	at   time.Duration
	what string
}
