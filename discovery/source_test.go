package discovery

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the answers: what an answer has is in the set, and nothing else but what
// was missing for fewer than dropAfter answers in a row.
func TestMergeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dropAfter := rapid.IntRange(1, 4).Draw(t, "dropAfter")
		answers := rapid.SliceOf(rapid.SliceOfNDistinct(rapid.IntRange(0, 6), 1, 6, rapid.ID)).Draw(t, "answers")
		s := &source{missing: map[string]int{}}
		absent := map[string]int{} // by ID, for all that are in the set
		for _, a := range answers {
			answer, has := []Endpoint{}, map[string]bool{}
			for _, n := range a {
				id := strconv.Itoa(n)
				answer, has[id] = append(answer, Endpoint{ID: id}), true
			}
			for id := range absent {
				absent[id]++
			}
			for id := range has {
				absent[id] = 0
			}
			want := []string{}
			held := false
			for id, n := range absent {
				if n >= dropAfter {
					delete(absent, id)
					continue
				}
				want = append(want, id)
				held = held || n > 0
			}
			var open bool
			s.endpoints, open = s.merge(answer, dropAfter)
			got := ids(s.endpoints)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || open != held {
				t.Fatalf("after %v the set is %v (open %v), not %v (%v)", a, got, open, want, held)
			}
		}
	})
}
