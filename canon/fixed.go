package canon

import (
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// Unit is what [Result.FixedPrefix] counts in.
type Unit uint8

const (
	// Bytes counts bytes of the body, as SageMaker does for InvokeEndpoint.
	Bytes Unit = iota
	// Characters counts Unicode characters of the text of the messages, one
	// after another, as SageMaker does for its OpenAI-compatible API. Tools,
	// roles and tool calls are not in it.
	Characters
)

// FixedPrefix returns the hash of the first n bytes of the body, or of the
// first n characters of the text of the messages, or of all of it where there
// is less. It is the key of Amazon SageMaker's prefix-aware routing
// (PrefixAwareRoutingConfig: 1,024 to 65,536), kept for comparison: it is
// blind to what engines cache. A body that was left untouched has no text and
// is counted in bytes.
//
// The text is that of string content and text parts of messages, the prompt of
// a completion, the input of an embedding, or the system text or instructions
// and the items of the other shapes. It is read from Body anew each time.
func (r Result) FixedPrefix(n int, u Unit) uint64 {
	n = max(n, 0)
	var digest xxhash.Digest
	digest.Reset()
	digest.WriteString(keyVersion)
	if u == Bytes || r.Diagnosis.Code != OK {
		digest.Write([]byte{tagFixed, byte(Bytes)})
		digest.Write(r.Body[:min(n, len(r.Body))])
		return digest.Sum64()
	}
	digest.Write([]byte{tagFixed, byte(Characters)})
	f := fixedText{left: n, digest: &digest}
	f.reset(r.Body, maxDepth)
	f.parse()
	for _, name := range [...]nameID{nInstructions, nSystem, nPrompt, nInput, nMessages} {
		if val := f.find(0, name); val != 0 {
			f.walk(val)
		}
	}
	return digest.Sum64()
}

// fixedText hashes the text of a canonical body up to a number of characters.
type fixedText struct {
	parser
	left   int
	digest *xxhash.Digest
}

// walk takes the text in content, in a message, or in a list of either.
func (f *fixedText) walk(i uint32) {
	switch f.kind(i) {
	case kindString:
		f.take(f.decoded(i))
	case kindArray:
		for k, end := i+1, f.nodes[i].aux; k < end && f.left > 0; k = f.next(k) {
			f.walk(k)
		}
	case kindObject:
		for _, name := range [...]nameID{nText, nContent} {
			if val := f.find(i, name); val != 0 {
				f.walk(val)
			}
		}
	}
}

func (f *fixedText) take(text []byte) {
	at := 0
	for at < len(text) && f.left > 0 {
		_, size := utf8.DecodeRune(text[at:])
		at += size
		f.left--
	}
	f.digest.Write(text[:at])
}
