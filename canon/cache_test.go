package canon_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// toolList spells n tools, out of order, that differ from those of another
// seed in their very last bytes only.
func toolList(n, seed int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := n; i > 0; i-- {
		fmt.Fprintf(&b, `{"type": "function", "function": {"name": "tool_%03d", "description": "Does \u003c%d\u003e.",
			"parameters": {"type": "object", "properties": {"b": {"type": "string", "description": "x"}, "a": {}}, "required": ["b", "a"]}}},`, i, i)
	}
	fmt.Fprintf(&b, `{"type": "function", "function": {"name": "last", "description": "%d"}}]`, seed)
	return b.String()
}

func TestToolsCacheNeverChangesAResult(t *testing.T) {
	for _, level := range levels {
		cached := newCanon(t, canon.Options{Level: level})
		plain := newCanon(t, canon.Options{Level: level, DisableToolsCache: true})
		for round := range 5 {
			for seed := range 12 { // more than a bucket holds
				for _, extra := range []string{``, `,"response_format":{"type":"json_object"}`, `,"tool_choice":"required"`} {
					body := []byte(`{"model":"m","tools":` + toolList(3, seed) + `,"messages":[{"role":"user","content":"x"}]` + extra + `}`)
					for _, api := range []canon.API{canon.Chat, canon.Responses, canon.Messages} {
						a, err := cached.Canonicalize(api, body)
						require.NoError(t, err)
						b, err := plain.Canonicalize(api, body)
						require.NoError(t, err)
						require.Equal(t, string(b.Body), string(a.Body), "round %d seed %d", round, seed)
						require.Equal(t, b, a)
					}
				}
			}
		}
	}
}

// A list that is known does not make a faulty body pass.
func TestToolsCacheKeepsTheGuard(t *testing.T) {
	c := newCanon(t, canon.Options{})
	list := toolList(3, 0)
	for range 4 {
		r, err := c.Canonicalize(canon.Chat, []byte(`{"messages":[],"tools":`+list+`}`))
		require.NoError(t, err)
		require.Equal(t, canon.OK, r.Diagnosis.Code)
	}
	for _, body := range []string{
		`{"messages":[],"tools":` + list + `]}`,
		`{"messages":[],"tools":` + list,
		`{"messages":[],"tools":` + list + `,"tools":` + list + `}`,
		`{"tools":` + list + `,"messages":["\ud800"]}`,
	} {
		r, err := c.Canonicalize(canon.Chat, []byte(body))
		require.NoError(t, err)
		require.NotEqual(t, canon.OK, r.Diagnosis.Code)
		require.Equal(t, body, string(r.Body))
	}
}

// Hundreds of lists pass through a bounded cache from many goroutines.
func TestToolsCacheConcurrently(t *testing.T) {
	c := newCanon(t, canon.Options{})
	plain := newCanon(t, canon.Options{DisableToolsCache: true})
	want := make([]string, 200)
	bodies := make([][]byte, len(want))
	for i := range bodies {
		bodies[i] = []byte(`{"tools":` + strings.Replace(toolList(2, i), "tool_", fmt.Sprintf("t%d_", i%100), 1) + `,"messages":[]}`)
		r, err := plain.Canonicalize(canon.Chat, bodies[i])
		require.NoError(t, err)
		want[i] = string(r.Body)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := range 600 {
				i := (n/2*7 + g) % len(bodies)
				r, err := c.Canonicalize(canon.Chat, bodies[i])
				if err != nil || string(r.Body) != want[i] {
					t.Errorf("body %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// The result must survive the scratch memory being used again.
func TestResultsDoNotShareMemory(t *testing.T) {
	c := newCanon(t, canon.Options{})
	first, err := c.Canonicalize(canon.Chat, []byte(`{"model":"one","messages":[{"role":"user","content":"\u003cone\u003e"}]}`))
	require.NoError(t, err)
	body, bounds := string(first.Body), fmt.Sprint(first.Boundaries)
	for range 10 {
		_, err = c.Canonicalize(canon.Chat, []byte(`{"model":"two","messages":[{"role":"user","content":"\u003ctwo\u003e, and a longer one"}]}`))
		require.NoError(t, err)
	}
	require.Equal(t, body, string(first.Body))
	require.Equal(t, bounds, fmt.Sprint(first.Boundaries))
	require.Equal(t, "one", first.Model)
}

// An object of many members, in reverse order, with one duplicate at the end.
func TestManyMembers(t *testing.T) {
	for _, n := range []int{15, 16, 17, 40, 100_000} {
		var b strings.Builder
		b.WriteString(`{"messages":[]`)
		for i := n; i > 0; i-- {
			fmt.Fprintf(&b, `,"name that is the same at first %06d":%d`, i, i)
		}
		r := run(t, canon.Chat, canon.Stable, b.String()+"}")
		require.Equal(t, canon.OK, r.Diagnosis.Code, r.Diagnosis)
		require.Equal(t, len(b.String())+1, len(r.Body))
		require.Less(t, strings.Index(string(r.Body), "first 000001"), strings.Index(string(r.Body), "first 000002"))
		b.WriteString(`,"name that is the same at first 000003":0}`)
		r = run(t, canon.Chat, canon.Stable, b.String())
		require.Equal(t, canon.DuplicateName, r.Diagnosis.Code)
		require.Equal(t, "name that is the same at first 000003", r.Diagnosis.Path)
	}
}
