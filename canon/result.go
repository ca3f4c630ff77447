package canon

import "fmt"

// Result is a canonical request.
type Result struct {
	API       API
	Body      []byte    // what to send
	Diagnosis Diagnosis // zero when Body is canonical; else why it is the caller's, untouched

	Model              string // the model or adapter asked for, "" when there is none
	Stream             bool   // the answer is to be streamed
	UsageAdded         bool   // include_usage was set although the caller did not ask for it
	PreviousResponseID string // Responses: the response that this one continues, "" when none
	CacheKey           string // prompt_cache_key, "" when none: a hint for routing, not hashed

	// Head is the hash of the model, the fields that change the whole prompt,
	// the tools, and the leading system and developer messages. Root is the
	// hash up to the end of the first user message, or up to 64 KiB of its
	// text; without a user message it is Head. Both are the hash of the raw
	// bytes when the body was left untouched.
	Head, Root uint64

	// Boundaries are the hashes of the prompt's prefixes, in prompt order, at
	// least one. Two prompts are the same up to a boundary exactly when its
	// hashes are equal.
	Boundaries []Boundary

	// Previous is how many of Boundaries lie before the last stretch that the
	// model wrote: the prompt of the request that this one continues. 0 means
	// that the model has written nothing yet, or that the body was left
	// untouched.
	Previous int
}

// Boundary is a place in a prompt and the hash of everything before it.
type Boundary struct {
	Hash    uint64
	Offset  int // bytes of prompt text before it: decoded text and names, not JSON syntax
	Kind    BoundaryKind
	Message int // index of the message it lies in or ends, -1 before the first
}

// BoundaryKind says what ends at a boundary.
type BoundaryKind uint8

// The kinds of boundary, in the order in which a prompt has them.
const (
	HeadFields BoundaryKind = iota // model, template fields, cache salt
	Tools                          // the list of tools
	System                         // a leading system or developer message
	Turn                           // another message
	Text                           // 1, 2, 4, 8 … KiB of text within a message
	Tail                           // fields that change what follows the last message
	Raw                            // the raw bytes of a body left untouched
)

var kindNames = [...]string{"head-fields", "tools", "system", "turn", "text", "tail", "raw"}

// String returns the kind in kebab case, such as "head-fields".
func (k BoundaryKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("BoundaryKind(%d)", uint8(k))
}
