package canon

import "fmt"

// API is the shape of a request body.
type API uint8

// The request shapes that canon knows. Bodies of any other API pass through
// untouched under [Unknown].
const (
	Unknown     API = iota
	Chat            // POST /v1/chat/completions
	Completions     // POST /v1/completions
	Embeddings      // POST /v1/embeddings
	Responses       // POST /v1/responses
	Messages        // POST /v1/messages, the Anthropic shape
)

var apiNames = [...]string{"unknown", "chat", "completions", "embeddings", "responses", "messages"}

// String returns the API's name in lower case, such as "chat".
func (a API) String() string {
	if int(a) < len(apiNames) {
		return apiNames[a]
	}
	return fmt.Sprintf("API(%d)", uint8(a))
}

// Level says how far a request may be respelled. In the order Wire, Stable,
// Strong, each level does all that the one before it does, and each is idempotent.
//
// [Wire] never changes what the model sees. [Stable] can change the order in
// which the model sees tools, schema keywords and the results of one parallel
// batch of tool calls, and turns a single text part into the equal string; it
// never changes content.
type Level uint8

const (
	// Stable is the default. On top of Wire it writes a single text part as a
	// string, drops cache markers and null optional fields that the engine
	// reads as absent, sorts tools by type and name, sorts the keywords of
	// their parameter schemas and the names under "required", and puts the
	// results of one completed parallel batch into the order of its calls.
	Stable Level = iota

	// Wire normalises whitespace, string escapes and the member order of
	// objects whose order the engine cannot see.
	Wire

	// Strong is Stable with one more rule: members of "properties" in the
	// parameter schemas of tools are sorted by name. Their order steers what a
	// constrained decoder generates, so they stay as they are in a tool with
	// "strict", and everywhere when the request asks for structured output or
	// forces a tool call. Choose it only when a producer shuffles properties
	// and cannot be mended.
	Strong
)

var levelNames = [...]string{"stable", "wire", "strong"}

// String returns the level's name in lower case, as [ParseLevel] reads it.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// ParseLevel reads the name of a level: "wire", "stable" or "strong".
func ParseLevel(name string) (Level, error) {
	for l, n := range levelNames {
		if n == name {
			return Level(l), nil
		}
	}
	return Stable, fmt.Errorf("canon: unknown level %q, want one of wire, stable, strong", name)
}
