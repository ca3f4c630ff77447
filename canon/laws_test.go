package canon_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prefixwise/prefixwise/canon"
)

var levels = []canon.Level{canon.Wire, canon.Stable, canon.Strong}

func anyLevel(rt *rapid.T) canon.Level { return rapid.SampledFrom(levels).Draw(rt, "level") }

// One canonicalizer for each level lives through a whole property, so that its
// reused scratch and its tools cache are under test as well.
func perLevel(t *testing.T) map[canon.Level]*canon.Canonicalizer {
	cs := map[canon.Level]*canon.Canonicalizer{}
	for _, l := range levels {
		cs[l] = newCanon(t, canon.Options{Level: l})
	}
	return cs
}

func canonical(t require.TestingT, c *canon.Canonicalizer, body string) canon.Result {
	before := body
	in := []byte(body)
	r, err := c.Canonicalize(canon.Chat, in)
	require.NoError(t, err)
	require.Equal(t, canon.OK, r.Diagnosis.Code, "%s: %s", r.Diagnosis, body)
	require.Equal(t, before, string(in), "the body was modified")
	return r
}

func TestLawIdempotence(t *testing.T) {
	cs := perLevel(t)
	rapid.Check(t, func(rt *rapid.T) {
		level := anyLevel(rt)
		once := canonical(rt, cs[level], spell(rt, chat(rt)))
		twice := canonical(rt, cs[level], string(once.Body))
		require.Equal(rt, string(once.Body), string(twice.Body))
		require.Equal(rt, once.Boundaries, twice.Boundaries)
		require.Equal(rt, once.Root, twice.Root)
		require.Equal(rt, once.Head, twice.Head)
	})
}

func TestLawEquivalence(t *testing.T) {
	cs := perLevel(t)
	rapid.Check(t, func(rt *rapid.T) {
		level := anyLevel(rt)
		request := chat(rt)
		a := canonical(rt, cs[level], spell(rt, respell(rt, request, level)))
		b := canonical(rt, cs[level], spell(rt, respell(rt, request, level)))
		require.Equal(rt, string(a.Body), string(b.Body))
		require.Equal(rt, a.Boundaries, b.Boundaries)
		require.Equal(rt, a.Root, b.Root)
	})
}

// Levels are ordered: what Wire makes equal stays equal, and canonicalizing at
// a lower level first changes nothing.
func TestLawLevelsNest(t *testing.T) {
	cs := perLevel(t)
	rapid.Check(t, func(rt *rapid.T) {
		body := spell(rt, chat(rt))
		wire := canonical(rt, cs[canon.Wire], body)
		stable := canonical(rt, cs[canon.Stable], body)
		require.Equal(rt, string(stable.Body), string(canonical(rt, cs[canon.Stable], string(wire.Body)).Body))
		require.Equal(rt, string(canonical(rt, cs[canon.Strong], body).Body), string(canonical(rt, cs[canon.Strong], string(stable.Body)).Body))
	})
}

// At Wire nothing but the order of members may differ; no name, text, digit,
// or element is lost, at any depth.
func TestLawWireKeepsTheTree(t *testing.T) {
	cs := perLevel(t)
	rapid.Check(t, func(rt *rapid.T) {
		body := spell(rt, chat(rt))
		out := canonical(rt, cs[canon.Wire], body)
		in, err := decode([]byte(body))
		require.NoError(rt, err)
		got, err := decode(out.Body)
		require.NoError(rt, err)
		require.Equal(rt, in.sorted().String(), got.sorted().String())
	})
}

// The canonical tree is exactly the one that a plain reading of the rules over
// decoded trees gives.
func TestLawSemanticPreservation(t *testing.T) {
	cs := perLevel(t)
	rapid.Check(t, func(rt *rapid.T) {
		level := anyLevel(rt)
		body := spell(rt, respell(rt, chat(rt), level))
		in, err := decode([]byte(body))
		require.NoError(rt, err)
		got, err := decode(canonical(rt, cs[level], body).Body)
		require.NoError(rt, err)
		require.Equal(rt, expected(in, level).String(), got.String())
	})
}

func TestLawAppendStability(t *testing.T) {
	cs := perLevel(t)
	rapid.Check(t, func(rt *rapid.T) {
		level := anyLevel(rt)
		request := respell(rt, chat(rt), level)
		messages := request.get("messages")
		all := messages.kids
		var last canon.Result
		prefix := []byte(nil)
		for n := 0; n <= len(all); n++ {
			if open(all, n) {
				continue
			}
			messages.kids = all[:n]
			r := canonical(rt, cs[level], spell(rt, request))
			end := messagesEnd(r.Body)
			require.True(rt, bytes.HasPrefix(r.Body, prefix), "%s\n%s", prefix, r.Body)
			prefix = bytes.Clone(r.Body[:end])
			if last.Boundaries != nil {
				require.Equal(rt, last.Boundaries, r.Boundaries[:len(last.Boundaries)])
			}
			last = r
		}
	})
}

// open reports whether message n of all is a result of a batch that began
// before it, or the batch is incomplete there.
func open(all []branch, n int) bool {
	due := 0
	for _, k := range all[:n] {
		if due > 0 {
			due--
		}
		if calls := k.val.get("tool_calls"); calls != nil && len(calls.kids) > 0 {
			due = len(calls.kids)
		}
	}
	return due > 0
}

// messagesEnd returns where the closing bracket of the root's messages is.
func messagesEnd(body []byte) int {
	depth, inString := 0, false
	start := -1
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			if !inString && depth == 1 && bytes.HasPrefix(body[i:], []byte(`"messages":[`)) {
				start = i
			}
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth == 1 && start >= 0 {
				return i
			}
		}
	}
	return len(body)
}
