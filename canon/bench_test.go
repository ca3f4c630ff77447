package canon_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/internal/benchbody"
)

var benchSizes = []struct {
	name  string
	size  int
	tools []int
}{
	{"1KB", 1 << 10, []int{0}},
	{"4KB", 4 << 10, []int{0, 12}},
	{"64KB", 64 << 10, []int{0, 12, 60}},
	{"1MB", 1 << 20, []int{0, 12, 60}},
}

func BenchmarkCanonicalize(b *testing.B) {
	for _, s := range benchSizes {
		for _, n := range s.tools {
			body := benchbody.Chat(s.size, n)
			name := fmt.Sprintf("%s/tools=%d", s.name, n)
			for _, variant := range []struct {
				name    string
				options canon.Options
			}{{"canon", canon.Options{}}, {"canon-no-tools-cache", canon.Options{DisableToolsCache: true}}} {
				if n == 0 && variant.options.DisableToolsCache {
					continue
				}
				b.Run(name+"/"+variant.name, func(b *testing.B) {
					c := newCanon(b, variant.options)
					b.SetBytes(int64(len(body)))
					b.ReportAllocs()
					for b.Loop() {
						r, err := c.Canonicalize(canon.Chat, body)
						if err != nil || r.Diagnosis.Code != canon.OK {
							b.Fatal(r.Diagnosis)
						}
					}
				})
			}
			b.Run(name+"/encoding-json", func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					var v any
					if err := json.Unmarshal(body, &v); err != nil {
						b.Fatal(err)
					}
					if _, err := json.Marshal(v); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
