package canon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/internal/benchbody"
)

var apis = []canon.API{canon.Chat, canon.Completions, canon.Embeddings, canon.Responses, canon.Messages}

func seeds(f *testing.F) {
	for _, c := range reports {
		for _, body := range c.spellings {
			f.Add([]byte(body))
		}
	}
	for _, c := range untouchables {
		f.Add([]byte(c.body))
	}
	f.Add(benchbody.Chat(4<<10, 2))
	f.Add([]byte(`{"input":[[1,2],[3]],"prompt":["a",7],"system":[{"type":"text","text":"s"}],"stream":true,"stream_options":{"a":1}}`))
	f.Add([]byte(`{"a":"\ud83d\ude00\u0000\u001F\/","a":1}`))
	f.Add([]byte(`{"input":[{"role":"assistant","tool_calls": [ {"id":"\u0041"}]}]}`))
	f.Add([]byte(`{"messages":[{"role":"tool","call_id":"a","tool_call_id":"b","content":"c"}]}`))
	root := os.Getenv("PREFIXWISE_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "data")
	}
	files, _ := filepath.Glob(filepath.Join(root, "json", "JSONTestSuite", "test_parsing", "*.json"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && len(text) < 4096 {
			f.Add(text)
		}
	}
}

// checkOne holds for every body whatever: no panic, the input unchanged,
// untouched bodies the same bytes; canonical ones valid, idempotent, and at
// Wire the same tree up to the order of members.
func checkOne(api canon.API, level canon.Level, body []byte) error {
	c, err := canon.New(canon.Options{Level: level, IncludeUsage: len(body)%2 == 0, ReasoningName: []string{"", "reasoning"}[len(body)/2%2]})
	if err != nil {
		return err
	}
	before := bytes.Clone(body)
	r, err := c.Canonicalize(api, body)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(before, body):
		return fmt.Errorf("the body was modified")
	case len(r.Boundaries) == 0:
		return fmt.Errorf("no boundaries")
	}
	in, decodeErr := decode(body)
	if r.Diagnosis.Code != canon.OK {
		if !bytes.Equal(r.Body, body) {
			return fmt.Errorf("untouched, but another body: %s", r.Diagnosis)
		}
		if (r.Diagnosis.Code == canon.NotJSON || r.Diagnosis.Code == canon.TrailingData) && decodeErr == nil && json.Valid(body) {
			return fmt.Errorf("%s, but encoding/json reads it", r.Diagnosis)
		}
		return nil
	}
	if decodeErr != nil {
		return fmt.Errorf("canonicalized, but encoding/json says %w", decodeErr)
	}
	out, err := decode(r.Body)
	if err != nil {
		return fmt.Errorf("the canonical body is not JSON: %w", err)
	}
	again, err := c.Canonicalize(api, r.Body)
	if err != nil || again.Diagnosis.Code != canon.OK || !bytes.Equal(again.Body, r.Body) {
		return fmt.Errorf("not idempotent (%s):\n%s\n%s", again.Diagnosis, r.Body, again.Body)
	}
	if fmt.Sprint(again.Boundaries) != fmt.Sprint(r.Boundaries) || again.Root != r.Root || again.Head != r.Head {
		return fmt.Errorf("the canonical body hashes otherwise:\n%s\n%s", body, r.Body)
	}
	if level == canon.Wire && !r.UsageAdded && !strings.Contains(string(r.Body), `"reasoning":`) {
		if a, b := in.sorted().String(), out.sorted().String(); a != b {
			return fmt.Errorf("another tree:\n%s\n%s", a, b)
		}
	}
	for _, n := range []int{0, 1, 7, 1 << 20} {
		r.FixedPrefix(n, canon.Characters)
		r.FixedPrefix(n, canon.Bytes)
	}
	return nil
}

func FuzzCanonicalize(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, api := range apis {
			for _, level := range levels {
				if err := checkOne(api, level, body); err != nil {
					t.Fatalf("%s at %s: %v", api, level, err)
				}
			}
		}
	})
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a":1}`), "a", []byte(`2`))
	f.Add([]byte(` {"a" : [1], "\u0061b":{} } `), "ab", []byte(` {"x":"\u003c"} `))
	f.Add([]byte(`{}`), "", []byte(`"`))
	f.Fuzz(func(t *testing.T, body []byte, name string, value []byte) {
		before := bytes.Clone(body)
		got, err := canon.Merge(body, map[string]json.RawMessage{name: value})
		if !bytes.Equal(before, body) {
			t.Fatal("the body was modified")
		}
		var old map[string]json.RawMessage
		valid := json.Unmarshal(body, &old) == nil && old != nil && json.Valid(value)
		if err != nil {
			if valid && strings.ToValidUTF8(name, "") == name {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		if !valid {
			t.Fatal("accepted")
		}
		var merged map[string]json.RawMessage
		if err := json.Unmarshal(got, &merged); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if !bytes.Equal(bytes.TrimSpace(value), merged[name]) {
			t.Fatalf("%q instead of %q", merged[name], value)
		}
		for k, v := range old {
			if k != name && !bytes.Equal(v, merged[k]) {
				t.Fatalf("member %q changed", k)
			}
		}
	})
}

// Two texts in one place: the boundaries from there on are equal exactly when
// the texts are, and those before it always are.
func FuzzDistinct(f *testing.F) {
	f.Add("a", "b", uint8(0))
	f.Add("", "null", uint8(3))
	f.Add("a\"},{\"role\":\"user", "a", uint8(2))
	f.Fuzz(func(t *testing.T, a, b string, place uint8) {
		a, b = strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?")
		const template = `{"model":"m","cache_salt":%s,"tools":[{"type":"function","function":{"name":"f","description":%s}}],"messages":[{"role":"system","content":%s},{"role":"user","content":%s},{"role":"assistant","reasoning":%s,"tool_calls":[{"id":%s,"type":"function","function":{"name":"f","arguments":%s}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":%s},{"type":"image_url","image_url":{"url":%s}}]}]}`
		const places = 9
		at := int(place) % places
		ask := func(s string) canon.Result {
			texts := make([]any, places)
			for i := range texts {
				texts[i] = `"x"`
			}
			texts[at] = quote(s)
			r, err := canon.Canonicalize(canon.Chat, fmt.Appendf(nil, template, texts...))
			if err != nil || r.Diagnosis.Code != canon.OK {
				t.Fatal(err, r.Diagnosis)
			}
			return r
		}
		ra, rb := ask(a), ask(b)
		if a == b {
			if fmt.Sprint(ra.Boundaries) != fmt.Sprint(rb.Boundaries) {
				t.Fatal("equal requests, other boundaries")
			}
			return
		}
		// Where the change lies: a kind for the head, a message for the rest.
		message := []int{-1, -1, 0, 1, 2, 2, 2, 3, 3}[at]
		kind := []canon.BoundaryKind{canon.HeadFields, canon.Tools}
		seen := map[uint64]bool{}
		for _, x := range ra.Boundaries {
			seen[x.Hash] = true
		}
		for i, x := range rb.Boundaries {
			before := x.Message < message || message == -1 && x.Kind < kind[min(at, 1)]
			if before && x != ra.Boundaries[i] {
				t.Fatalf("boundary %d before the change moved", i)
			}
			// Text boundaries inside the changed message may still be shared.
			if !before && (x.Kind != canon.Text || x.Message > message) && seen[x.Hash] {
				t.Fatalf("boundary %d is as before", i)
			}
		}
	})
}
