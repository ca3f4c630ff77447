.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets.
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.PHONY: test
test: ## Run the tests.
	go test ./...

.PHONY: race
race: ## Run the tests under the race detector.
	go test -race ./...

.PHONY: check
check: ## Run everything that CI runs.
	.ci/run

.PHONY: bench
bench: ## Run the benchmarks of the hot path.
	go test -run '^$$' -bench . -benchmem ./canon ./affinity ./client

.PHONY: quickstart
quickstart: ## Compare random routing with prefix routing on a simulated fleet.
	go run ./examples/quickstart

.PHONY: examples
examples: ## Run every SDK's example against a simulated fleet, and print its hit rate.
	@go run ./examples/go-openai
	@for mod in examples/*/go.mod; do go run -C "$${mod%/go.mod}" . || exit 1; done

.PHONY: agent
agent: ## Run tool-calling agents on a simulated fleet.
	go run ./examples/agent

.PHONY: golden-arm64
golden-arm64: ## Check the golden hashes as arm64 computes them (needs qemu-user).
	GOARCH=arm64 CGO_ENABLED=0 go test -exec qemu-aarch64-static -run Golden ./affinity ./canon

.PHONY: fuzz
fuzz: ## Fuzz each target for a minute, or FUZZTIME=10m.
	@for pkg in ./canon ./discovery ./middleware ./client ./examples/replay; do \
	  for target in $$(go test $$pkg -list '^Fuzz' | grep ^Fuzz); do \
	    go test $$pkg -run '^$$' -fuzz "^$$target$$" -fuzztime $${FUZZTIME:-1m} -fuzzminimizetime 1x || exit 1; \
	  done; \
	done

.PHONY: api
api: ## Accept the exported API as it is now, after looking at the difference.
	go test ./internal/apisnapshot -update
