//go:build !race

package main

// raceDetector is whether the tests run under it. A replay is one goroutine, so
// whole traces only take ten times as long there and show nothing.
const raceDetector = false
