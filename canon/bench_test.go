package canon_test

import (
	"encoding/json"
	"fmt"
	"strings"
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
				b.Run(name+"/"+variant.name, func(b *testing.B) { canonicalize(b, variant.options, body) })
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

// BenchmarkEscapes has text as SDKs spell it: Go's write < > & as escapes, and
// Python's json.dumps all but ASCII.
func BenchmarkEscapes(b *testing.B) {
	for _, of := range []struct{ name, content string }{
		{"go", quote(strings.Repeat("if a < 3 && b > 4 {\n\treturn \"yes\"\n}\n", 40))},
		{"python", `"` + strings.Repeat(`\u654f\u6377\u7684\u68d5\u8272\u72d0\u72f8\u3002`, 30) + `"`},
	} {
		message := `{"role":"user","content":` + of.content + `}`
		body := `{"model":"m","messages":[` + message + strings.Repeat(","+message, 64<<10/len(message)) + `]}`
		b.Run(of.name, func(b *testing.B) { canonicalize(b, canon.Options{}, []byte(body)) })
	}
}

func canonicalize(b *testing.B, o canon.Options, body []byte) {
	c := newCanon(b, o)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := c.Canonicalize(canon.Chat, body)
		if err != nil || r.Diagnosis.Code != canon.OK {
			b.Fatal(r.Diagnosis)
		}
	}
}
