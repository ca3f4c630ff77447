package middleware_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/prefixwise/prefixwise/middleware"
)

// How much of the prompt text had been sent before?
func ExampleReadRecords() {
	recording := strings.NewReader(
		`{"v":1,"time":"2026-01-02T03:04:05Z","api":"chat","head":"00000000000000a1","root":"00000000000000b1","boundaries":[{"hash":"00000000000000a1","bytes":700},{"hash":"00000000000000b1","bytes":800}],"outcome":"ok","total_ms":810}
{"v":1,"time":"2026-01-02T03:04:06Z","api":"chat","head":"00000000000000a1","root":"00000000000000b2","boundaries":[{"hash":"00000000000000a1","bytes":700},{"hash":"00000000000000b2","bytes":950}],"outcome":"ok","total_ms":795}
`)
	sent := map[uint64]bool{}
	all, shared := 0, 0
	for record, err := range middleware.ReadRecords(recording) {
		if err != nil {
			log.Fatal(err)
		}
		known, end := 0, 0
		for _, b := range record.Boundaries {
			if sent[b.Hash] {
				known = b.Bytes
			}
			sent[b.Hash], end = true, b.Bytes
		}
		all, shared = all+end, shared+known
	}
	fmt.Printf("%d of %d bytes\n", shared, all)
	// Output: 700 of 1750 bytes
}
