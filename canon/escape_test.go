package canon

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The writer knows from the scan which escapes to write anew; Diff looks for them.
// Both come to the same, in the first string of a document and in a later one.
func TestRespellAndAppendCanonicalAgree(t *testing.T) {
	pieces := []string{`\u003c`, `\u003C`, `\/`, `\n`, `\u000a`, `\u000b`, `\u000B`, `\u0022`, `\u005c`, `\"`, `\\`, `\u00e9`, `é`, `\u2028`, `\ud83d\ude00`, `a`, `a plain text`}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var one, other strings.Builder
		for range r.IntN(20) {
			one.WriteString(pieces[r.IntN(len(pieces))])
			other.WriteString(pieces[r.IntN(len(pieces))])
		}
		var w writer
		w.reset([]byte(`["`+one.String()+`","`+other.String()+`"]`), maxDepth)
		require.True(t, w.parse())
		w.value(0, ruleVerbatim)
		want := `["` + string(appendCanonical(nil, []byte(one.String()))) + `","` + string(appendCanonical(nil, []byte(other.String()))) + `"]`
		require.Equal(t, want, string(w.out))
	}
}

// The notes do not outgrow the scratch that is kept, and what has none is written
// anew all the same.
func TestMoreEscapesThanAreNoted(t *testing.T) {
	const spelled, text = `\u4e2d\/\n`, `中/\n`
	for _, before := range []int{0, keepNodes - 3, keepNodes - 2, keepNodes - 1, keepNodes, keepNodes + 1} {
		var w writer
		body := func(slash, piece string) string {
			return `["` + strings.Repeat(slash, before) + `","` + piece + `","plain","\n",["` + piece + `a` + piece + `"],{"a":"` + piece + `"}]`
		}
		w.reset([]byte(body(`\/`, spelled)), maxDepth)
		require.True(t, w.parse())
		w.value(0, ruleVerbatim)
		require.Equal(t, body(`/`, text), string(w.out))
		require.Len(t, w.odd, min(before+8, keepNodes))
	}
}
