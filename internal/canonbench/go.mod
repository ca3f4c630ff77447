module github.com/prefixwise/prefixwise/internal/canonbench

go 1.26.0

require (
	github.com/go-json-experiment/json v1.27.2
	github.com/gowebpki/jcs v1.0.2
	github.com/prefixwise/prefixwise v0.1.0
)

require github.com/cespare/xxhash/v2 v2.3.0 // indirect

replace github.com/prefixwise/prefixwise => ../..
