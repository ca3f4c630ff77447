package main

import "time"

// The kinds of event, in the order in which they are handled when they happen
// at the same moment. The end of an engine's step comes between change and
// arrival: who is answered first sends first.
const (
	change = iota // of the fleet
	arrival
	poll // of the engines' gauges by one client
)

type event struct {
	at      time.Duration
	kind    int
	n       int // order of making, for events that are alike otherwise
	request *request
	client  *sender
	add     bool // change: add an instance, or else drain one
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.kind != b.kind:
		return a.kind < b.kind
	}
	return a.n < b.n
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
