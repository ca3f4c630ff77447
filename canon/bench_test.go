package canon_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/prefixwise/prefixwise/canon"
)

// benchBody builds a chat of about size bytes with n tools, as a client with
// another JSON library spells it: members in the order of that client's
// structs, spaces after separators, HTML escapes in some texts, newlines and
// quotes in more, tools and schema keywords unsorted. Tools take up to 30 % of
// the bytes. The messages are a little denser than the tau-bench trajectories,
// which have one JSON value or name for every 70 bytes and an escape for every
// 23.
func benchBody(size, n int) []byte {
	var b strings.Builder
	b.WriteString(`{"temperature": 0.7, "stream": false, "messages": [{"role": "system", "content": "You help with orders.\nBe brief, and ask when unsure."}`)
	tools := benchTools(size, n)
	const sentence = "The parcel left the depot on time and was scanned twice on its way to the customer. "
	for turn := 1; b.Len()+len(tools)+600 < size; turn++ {
		text := strings.Repeat(sentence, 3+turn%3)
		switch turn % 8 {
		case 0:
			text += `if a \u003c b \u0026\u0026 c \u003e d then notify(\"\u00e9quipe\")`
		case 1, 3, 5:
			text = strings.ReplaceAll(text, ". ", `.\n`)
		}
		fmt.Fprintf(&b, `, {"role": "user", "content": "%s"}`, text)
		if b.Len()+len(tools)+2400 > size {
			continue // the rest in small steps
		}
		fmt.Fprintf(&b, `, {"role": "assistant", "content": null, "tool_calls": [{"id": "call_%06d", "type": "function", "function": {"name": "lookup_order", "arguments": "{\"order_id\": \"A-%d\", \"verbose\": true}"}}]}`, turn, turn)
		fmt.Fprintf(&b, `, {"role": "tool", "tool_call_id": "call_%06d", "name": "lookup_order", "content": "{\"status\": \"in transit\", \"steps\": [%d, %d], \"events\": [%s], \"note\": \"left at the door\"}"}`,
			turn, turn, turn+1, strings.Repeat(`{\"at\": \"2024-05-20T10:00:00Z\", \"what\": \"scanned by hand\", \"where\": \"depot 7, gate 12\"}, `, 7)+`null`)
		fmt.Fprintf(&b, `, {"role": "assistant", "content": "It left the depot, and was scanned %d times.\n%sAnything else?"}`, turn, strings.Repeat(sentence, 4))
	}
	b.WriteString(`]`)
	b.WriteString(tools)
	b.WriteString(`, "model": "org/some-model-8b"}`)
	return []byte(b.String())
}

func benchTools(size, n int) string {
	if n == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(`, "tools": [`)
	each := size * 3 / 10 / n
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		start := b.Len()
		fmt.Fprintf(&b, `{"type": "function", "function": {"name": "tool_%02d", "description": "Does the work of step %d; use it when a \u003e b.", "parameters": {"type": "object", "properties": {"id": {"type": "string", "description": "what to look up"}`, (i*7)%n, i)
		for p := 0; b.Len()-start+150 < each; p++ {
			fmt.Fprintf(&b, `, "field_%d": {"type": "string", "description": "A value of some sort, in words.", "enum": ["one", "two"]}`, p)
		}
		b.WriteString(`}, "required": ["id"], "additionalProperties": false}}}`)
	}
	b.WriteString("]")
	return b.String()
}

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
			body := benchBody(s.size, n)
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

// The benchmark's body must be what it claims to be.
func TestBenchBody(t *testing.T) {
	body := benchBody(64<<10, 12)
	if len(body) < 60<<10 || len(body) > 66<<10 {
		t.Fatalf("%d bytes", len(body))
	}
	if share := float64(len(benchTools(64<<10, 12))) / float64(len(body)); share > 0.3 || share < 0.2 {
		t.Fatalf("tools are %.2f of the bytes", share)
	}
	v := mustDecode(t, body)
	strings, escaped := 0, 0
	var count func(v *tree)
	count = func(v *tree) {
		if v.kind == 's' {
			strings++
			for _, r := range v.text {
				if r < ' ' || r == '"' || r == '<' || r == '>' {
					escaped++
					break
				}
			}
		}
		for _, k := range v.kids {
			count(k.val)
		}
	}
	count(v)
	if escaped*10 < strings {
		t.Fatalf("%d of %d strings hold an escape", escaped, strings)
	}
	r := run(t, canon.Chat, canon.Stable, string(body))
	if string(r.Body) == string(body) {
		t.Fatal("already canonical")
	}
}
