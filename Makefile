.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

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
