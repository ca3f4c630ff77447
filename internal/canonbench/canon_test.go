package canonbench

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/internal/benchbody"
)

// contender is a way to make a request canonical.
type contender struct {
	name string
	run  func(body []byte) error
}

func contenders(tb testing.TB) []contender {
	canonical := func(o canon.Options) func([]byte) error {
		c, err := canon.New(o)
		if err != nil {
			tb.Fatal(err)
		}
		return func(body []byte) error {
			r, err := c.Canonicalize(canon.Chat, body)
			if err == nil && r.Diagnosis.Code != canon.OK {
				err = fmt.Errorf("%s", r.Diagnosis)
			}
			return err
		}
	}
	return []contender{
		{"canon", canonical(canon.Options{})},
		{"canon-no-tools-cache", canonical(canon.Options{DisableToolsCache: true})},
		{"canon-wire", canonical(canon.Options{Level: canon.Wire})},
		{"encoding-json", func(body []byte) error {
			var v any
			if err := json.Unmarshal(body, &v); err != nil {
				return err
			}
			_, err := json.Marshal(v)
			return err
		}},
		{"jcs", func(body []byte) error {
			_, err := jcs.Transform(body)
			return err
		}},
		{"jsontext", func(body []byte) error {
			v := jsontext.Value(append([]byte(nil), body...))
			return v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
		}},
	}
}

var sizes = []struct {
	name  string
	size  int
	tools []int
}{
	{"1KB", 1 << 10, []int{0}},
	{"4KB", 4 << 10, []int{0, 12}},
	{"64KB", 64 << 10, []int{0, 12, 60}},
	{"1MB", 1 << 20, []int{0, 12, 60}},
}

func BenchmarkCanonical(b *testing.B) {
	for _, s := range sizes {
		for _, n := range s.tools {
			body := benchbody.Chat(s.size, n)
			for _, c := range contenders(b) {
				b.Run(fmt.Sprintf("%s/tools=%d/%s", s.name, n, c.name), func(b *testing.B) {
					b.SetBytes(int64(len(body)))
					b.ReportAllocs()
					for b.Loop() {
						if err := c.run(body); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

var shortest = flag.Duration("shortest", 0, "how long TestShortest measures each contender; 0 skips it")

// TestShortest prints the shortest run of each contender, over all sizes.
func TestShortest(t *testing.T) {
	if *shortest == 0 {
		t.Skip("set -shortest=1s to measure")
	}
	for _, s := range sizes {
		for _, n := range s.tools {
			body := benchbody.Chat(s.size, n)
			best := map[string]time.Duration{}
			// The contenders take turns, so that all of them meet the same weather.
			all := contenders(t)
			for end := time.Now().Add(*shortest * time.Duration(len(all))); time.Now().Before(end); {
				for _, c := range all {
					for range 5 {
						start := time.Now()
						if err := c.run(body); err != nil {
							t.Fatal(err)
						}
						if d := time.Since(start); best[c.name] == 0 || d < best[c.name] {
							best[c.name] = d
						}
					}
				}
			}
			for _, c := range all {
				d := best[c.name]
				t.Logf("%4s tools=%-2d %-21s %10v %5.0f MB/s %5.1f x encoding/json", s.name, n, c.name, d,
					float64(len(body))/1e6/d.Seconds(), float64(best["encoding-json"])/float64(d))
			}
		}
	}
}

// The contenders agree on what a request says.
func TestContendersKeepTheMeaning(t *testing.T) {
	body := benchbody.Chat(64<<10, 12)
	for _, c := range contenders(t) {
		if err := c.run(body); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
