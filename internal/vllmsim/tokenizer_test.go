package vllmsim

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func pieces(s string) (all []string) {
	for len(s) > 0 {
		n := pieceLen(s)
		all = append(all, s[:n])
		s = s[n:]
	}
	return all
}

func TestPieces(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"Hello world", []string{"Hello", " world"}},
		{"internationalisation", []string{"interna", "tionali", "sation"}},
		{`{"a": 12345}`, []string{`{"`, "a", `":`, " ", "123", "45", "}"}},
		{"a  b\n\nc", []string{"a", " ", " b", "\n\n", "c"}},
		{"grüß 世界", []string{"gr", "ü", "ß", " ", "世", "界"}},
		{"\xff\x80", []string{"\xff\x80"}},
		{"\x80\x80", []string{"\x80", "\x80"}},
	} {
		require.Equal(t, c.want, pieces(c.text), "%q", c.text)
	}
}

func TestFourCharactersATokenInEnglish(t *testing.T) {
	const english = `The committee met on Tuesday to discuss the budget for the coming year, and
although several members had reservations about the size of the increase, a majority voted in
favour of it. "We cannot go on like this," said the chairman, who has held the office since 2009;
"people expect us to act." Copies of the report are available from the secretary.`
	perToken := float64(len(english)) / float64(len(Tokenize(english)))
	require.InDelta(t, 4, perToken, .8)
}

// Texts share exactly the tokens before the piece in which they part.
func TestTokensShareWhatTheTextsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.RuneFrom([]rune("ab 1\n,.é世")), 0, 30, -1)
		prefix, a, b := letters.Draw(t, "prefix"), letters.Draw(t, "a"), letters.Draw(t, "b")
		pa, pb := pieces(prefix+a), pieces(prefix+b)
		if strings.Join(pa, "") != prefix+a {
			t.Fatalf("pieces of %q lose text", prefix+a)
		}
		same := 0
		for n := 0; n < min(len(pa), len(pb)) && pa[n] == pb[n]; n++ {
			same += len(pa[n])
		}
		// At most one piece that begins in the prefix may differ, and it is
		// short unless it is white space.
		if len(prefix)-same > wordLetters && strings.TrimSpace(prefix[same:]) != "" {
			t.Fatalf("%q and %q share %d bytes, their tokens %d", prefix+a, prefix+b, len(prefix), same)
		}
		ta, tb := Tokenize(prefix+a), Tokenize(prefix+b)
		if (a == b) != equal(ta, tb) {
			t.Fatalf("%q and %q", prefix+a, prefix+b)
		}
	})
}

func equal(a, b []uint32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestNoTextHasSpecialTokens(t *testing.T) {
	for range 10000 {
		b := make([]byte, 8)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		for _, id := range Tokenize(string(b)) {
			require.Less(t, id, uint32(specialBit))
		}
	}
}

// An answer of n words is n tokens wherever it comes back.
func TestAnswersAreOneTokenAWord(t *testing.T) {
	for seed := range uint64(200) {
		require.Len(t, Tokenize(answerText(seed, 0, 100)), 100)
	}
	require.Equal(t, answerText(1, 0, 9), answerText(1, 0, 4)+answerText(1, 4, 9))
}

func TestAnswerLengths(t *testing.T) {
	low, high := 1000, 0
	for seed := range uint64(1000) {
		n := answerLength(mix(seed), 256)
		low, high = min(low, n), max(high, n)
	}
	require.GreaterOrEqual(t, low, 16)
	require.Less(t, low, 24)
	require.LessOrEqual(t, high, 256)
	require.Greater(t, high, 248)
	require.Equal(t, 1, answerLength(7, 1))
}
