// Package e2e holds this module to a running vLLM. It has tests only.
//
// The conformance suite runs against the simulator in go test ./... and, with
// the build tag vllm, against the engines named by PREFIXWISE_E2E_ENDPOINTS (a
// comma-separated list of base URLs). The tests of canon against the engine's
// cache need the engine. README.md tells how to start one from nothing, and
// what was found.
package e2e
