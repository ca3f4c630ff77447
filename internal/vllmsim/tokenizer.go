package vllmsim

// Tokenize splits text into pieces and returns an id for each: runs of up to
// seven letters with the space before them, runs of up to three digits, runs of
// up to three punctuation marks, runs of white space, and single characters
// outside ASCII. English text comes to about four characters a token, JSON to
// about three, as with the tokenizers of current models.
//
// The pieces put together are the text, and the split looks at nothing after a
// piece's end. So texts that share a prefix share its tokens up to the piece in
// which they part, and different texts have different tokens but for collisions
// of 31-bit ids. There is no vocabulary: an id is a hash of its piece, and
// cannot be turned back.
func Tokenize(text string) []uint32 {
	return appendTokens(make([]uint32, 0, len(text)/4+1), text)
}

const (
	wordLetters = 7
	numberLen   = 3
	punctLen    = 3
)

func appendTokens(dst []uint32, s string) []uint32 {
	for len(s) > 0 {
		n := pieceLen(s)
		dst = append(dst, pieceID(s[:n]))
		s = s[n:]
	}
	return dst
}

// pieceLen returns the length in bytes of the first piece of s, which is not
// empty.
func pieceLen(s string) int {
	i := 0
	if s[0] == ' ' && len(s) > 1 && class[s[1]] == letter {
		i = 1
	}
	c := class[s[i]]
	limit := i
	switch c {
	case letter:
		limit += wordLetters
	case digit:
		limit += numberLen
	case punct:
		limit += punctLen
	case space:
		limit = len(s)
	case lead:
		n := 1
		for n < 4 && n < len(s) && class[s[n]] == trail {
			n++
		}
		return n
	default: // a stray continuation byte
		return 1
	}
	for i++; i < len(s) && i < limit && class[s[i]] == c; i++ {
		// A space that starts a word belongs to it.
		if c == space && s[i] == ' ' && i+1 < len(s) && class[s[i+1]] == letter {
			break
		}
	}
	return i
}

const (
	punct = iota
	letter
	digit
	space
	lead  // first byte of a character outside ASCII
	trail // continuation byte
)

var class = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			t[c] = letter
		case c >= '0' && c <= '9':
			t[c] = digit
		case c <= ' ':
			t[c] = space
		case c >= 0xc0:
			t[c] = lead
		case c >= 0x80:
			t[c] = trail
		}
	}
	return t
}()

// pieceID is FNV-1a (Fowler, Noll, Vo) with a finalizer, in 31 bits so that ids
// are positive wherever they are shown; the upper half is for special tokens.
func pieceID(s string) uint32 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return uint32(mix(h)) &^ specialBit
}

// Special tokens have ids that no text has.
const specialBit = 1 << 31

const (
	tokenStart = specialBit + iota // begins every prompt of a chat
	tokenSystem
	tokenUser
	tokenAssistant
	tokenTool
	tokenEnd // ends every message
	tokenThink
	tokenThinkEnd
	tokenCall
	tokenCallEnd
	tokenNoThink
	tokenImage
)
