//go:build gc && !purego

package canon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// classifyBytes is classify byte by byte.
func classifyBytes(src []byte, blocks []block) (high uint64) {
	clear(blocks)
	escaped := false
	for i, c := range src[:64*len(blocks)] {
		if c >= 0x80 {
			high = 1
		}
		b, bit := &blocks[i/64], uint64(1)<<(i%64)
		switch {
		case escaped:
			escaped = false
		case c == '"' || c < ' ':
			b.stops |= bit
		case c == '\\':
			escaped = true
			b.escapes |= bit
			if i%64 == 63 || !bytes.Contains([]byte(`"\n`), src[i+1:i+2]) {
				b.stops |= bit
			}
		}
	}
	return high
}

// dense returns n random bytes, most of them such as the scanner tells apart.
func dense(r *rand.Rand, n int) []byte {
	const alphabet = "\\\\\\\\\\\\\"\"nntru/bf\x00\x1f\x20\x21\x23\x5b\x5d\x6d\x6f\x7f\x80\x82\x9f\xa2\xdc\xee\xff aaaaaaaa"
	s := make([]byte, n)
	few := r.IntN(3) == 0
	for i := range s {
		s[i] = alphabet[r.IntN(len(alphabet))]
		if few && r.IntN(20) != 0 {
			s[i] = 'x'
		}
	}
	return s
}

func needsMarks(t testing.TB) {
	if !marking {
		t.Skip("this processor has no AVX2")
	}
}

// The assembly marks what is to be marked, wherever in memory the source begins.
func TestClassify(t *testing.T) {
	needsMarks(t)
	r := rand.New(rand.NewPCG(1, 2))
	for k := range 5000 {
		n := 1 + k%5
		buffer := dense(r, 64*(n+1)+64)
		src := buffer[k%64:]
		got, want := make([]block, n+1), make([]block, n+1)
		got[n] = block{1, 2}
		want[n] = got[n] // behind the last
		high := classify(&src[0], got[:n])
		require.Equal(t, classifyBytes(src, want[:n]) != 0, high != 0, "%q", src[:64*n])
		require.Equal(t, want, got, "%q", src[:64*n])
	}
}

// Each byte value is told from the others in each place, alone and escaped.
func TestClassifyEachByte(t *testing.T) {
	needsMarks(t)
	for c := range 256 {
		for at := range 128 {
			src := bytes.Repeat([]byte{'x'}, 128)
			src[at] = byte(c)
			for range 2 {
				var got, want [2]block
				high := classify(&src[0], got[:])
				require.Equal(t, classifyBytes(src, want[:]) != 0, high != 0)
				require.Equal(t, want, got, "%#x at %d", c, at)
				src[max(at-1, 0)] = '\\'
			}
		}
	}
}

// skimBothWays checks skim against skimWords at every place where a scan of the
// text can start.
func skimBothWays(t testing.TB, text []byte) {
	t.Helper()
	var marked, plain parser
	marked.reset(text, maxDepth)
	plain.reset(text, maxDepth)
	for i := 0; i < len(text); {
		at, removed := marked.skim(i)
		wantAt, wantRemoved := plain.skimWords(i)
		if at != wantAt || removed != wantRemoved || marked.diag != plain.diag || !slices.Equal(marked.odd, plain.odd) {
			t.Fatalf("skim(%d) = %d, %d, %v, want %d, %d, %v in %q", i, at, removed, marked.diag, wantAt, wantRemoved, plain.diag, text)
		}
		i = at + 1
		if at < 0 {
			i = plain.diag.Offset + 2 // behind the letter of the escape
		}
		marked.diag, plain.diag = Diagnosis{}, Diagnosis{}
	}
}

func TestSkimByMarksAndByWords(t *testing.T) {
	needsMarks(t)
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 200 {
		for range 100 {
			skimBothWays(t, dense(r, n))
		}
	}
	for n := range 3 * window / 2 { // each kind of \u escape, cut by the end of a block and of the stretch
		text := bytes.Repeat([]byte{'-'}, n)
		skimBothWays(t, append(text, `\ud83d\ude00\u00e9\ud83d\n\u000b\ud83d\u0041" \ud83d\uXXXX`...))
	}
	for range 300 {
		skimBothWays(t, dense(r, window-70+r.IntN(140)))
		skimBothWays(t, dense(r, 3*window))
	}
}

// A string gets the same node near its end, far from it, and without marks.
func TestScanStringNearAndFar(t *testing.T) {
	needsMarks(t)
	r := rand.New(rand.NewPCG(5, 6))
	for k := range 20000 {
		text := dense(r, r.IntN(150))
		src := append(append(bytes.Repeat([]byte{' '}, k%130), text...), '"')
		var marked, fresh, bare parser
		marked.reset(src, maxDepth)
		marked.mark(0)
		fresh.reset(src, maxDepth)
		bare.reset(src, maxDepth)
		start := k % 130
		end := bare.scanAnyString(start)
		require.Equal(t, end, marked.scanString(start), "%q", src)
		require.Equal(t, end, fresh.scanString(start), "%q", src)
		require.Equal(t, bare.nodes, marked.nodes, "%q", src)
		require.Equal(t, bare.nodes, fresh.nodes, "%q", src)
		require.Equal(t, bare.diag, marked.diag)
		require.Equal(t, bare.untidy, marked.untidy)
		require.Equal(t, bare.odd, marked.odd)
		if end > 0 {
			spelled := src[start : end-1]
			require.Equal(t, len(appendDecoded(nil, spelled)), int(bare.nodes[0].aux), "%q", spelled)
		}
	}
}

// A body that is not UTF-8 is found out wherever the fault lies, though a source
// is looked at only as far as it is marked.
func TestInvalidUTF8IsFoundBehindMarks(t *testing.T) {
	for _, n := range []int{0, 1, 50, 63, 64, 65, window - 10, window, window + 70, 3 * window} {
		body := fmt.Appendf(nil, `{"model":"%s","x":["é","%s`+"\xff"+`"]}`, bytes.Repeat([]byte("m"), n), bytes.Repeat([]byte("y"), n))
		r, err := Canonicalize(Chat, body)
		require.NoError(t, err)
		require.Equal(t, InvalidUTF8, r.Diagnosis.Code)
		require.Equal(t, bytes.IndexByte(body, 0xff), r.Diagnosis.Offset)
	}
}

// FuzzMarks looks for a text that is scanned otherwise by marks than by words.
func FuzzMarks(f *testing.F) {
	needsMarks(f)
	f.Add([]byte(`a \u003c b\n\\\"c" d`), uint16(60))
	f.Add([]byte(`\ud83d\ude00\u003c\ud83d"`), uint16(60))
	f.Add([]byte("\\\\\\\\\\\\\"\x1f\x7fé"), uint16(window-3))
	f.Fuzz(func(t *testing.T, text []byte, before uint16) {
		skimBothWays(t, append(bytes.Repeat([]byte{'-'}, int(before)%(2*window)), text...))
	})
}

// An older processor comes to the same results.
func TestWithoutMarks(t *testing.T) {
	needsMarks(t)
	defer func() { marking = true }()
	r := rand.New(rand.NewPCG(7, 8))
	for k := range 300 {
		content := fmt.Appendf(nil, `"%s"`, dense(r, k)) // seldom JSON
		if k%2 == 0 {
			content, _ = json.Marshal(string(dense(r, k)))
		}
		body := fmt.Appendf(nil, `{"messages": [{"role":"user", "content": %s}], "model": "m\n\u0041"}`, content)
		marking = true
		want, err := Canonicalize(Chat, body)
		require.NoError(t, err)
		marking = false
		got, err := Canonicalize(Chat, body)
		require.NoError(t, err)
		require.Equal(t, want, got, "%s", body)
	}
}
