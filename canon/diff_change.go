package canon

import "fmt"

// Change is the class of a difference between two prompts: what their producer
// most likely did.
type Change uint8

// The classes of difference. The first five cost nothing that a client could
// have kept.
const (
	Same           Change = iota // the prompts are equal
	Respelled                    // as Same, but the bodies differ: whitespace, escapes, member order, markers, one text part for its string
	OutsidePrompt                // as Same, but the bodies differ in fields that are not in the prompt, such as temperature
	Appended                     // one prompt is the other and then goes on
	OtherRoot                    // the first message of the user is another one: two conversations
	Branched                     // the last message of one prompt is another one: two ways on from one history
	ModelChange                  // another model or adapter
	SaltChange                   // another cache_salt, which keeps the caches apart on purpose
	TemplateChange               // another chat template, template argument, document, reasoning effort …
	ToolSet                      // tools added or removed
	ToolOrder                    // the same tools in another order
	ToolSchema                   // the parameters of a tool changed
	ToolText                     // the name, description or another member of a tool changed
	KeywordOrder                 // the keywords of a tool's schema, or the names under required, in another order
	PropertyOrder                // the properties of a tool's schema in another order
	VolatileChange               // a date, a time, an id, a counter
	SystemText                   // system or developer text changed otherwise
	ReasoningLost                // an assistant turn has reasoning in one prompt and none in the other
	ReasoningOther               // the reasoning of an assistant turn changed
	Remarshalled                 // arguments, or a result, that are equal as JSON and differ as text
	EscapedChange                // text that differs in \u escapes which are part of the text
	Trimmed                      // text that differs in whitespace at its ends
	ShapeFlip                    // one text in another split into parts
	ResultOrder                  // the results of one batch in another order
	IDChange                     // ids of tool calls, which some templates print
	MediaChange                  // an image or another part that is not text
	Truncated                    // messages were removed from the history
	Inserted                     // messages were put into the history
	Rewritten                    // a message of the history changed otherwise
	TailChange                   // a field that changes what follows the last message
	UntouchedBody                // a body that canon passes on as it is
)

var changeNames = [...]string{
	"same", "respelled", "outside-prompt", "appended", "other-conversation", "branched",
	"model", "salt", "template", "tool-set", "tool-order", "tool-schema", "tool-text",
	"schema-keyword-order", "schema-property-order", "volatile-text", "system-text",
	"lost-reasoning", "changed-reasoning", "re-marshalled", "escaped-text", "trimmed-text", "shape-flip",
	"result-order", "changed-id", "media", "truncated-history", "inserted-history", "rewritten-history",
	"tail", "untouched-body",
}

// String returns the class in kebab case, such as "tool-order".
func (c Change) String() string {
	if int(c) < len(changeNames) {
		return changeNames[c]
	}
	return fmt.Sprintf("Change(%d)", uint8(c))
}

// MarshalText spells the class as String does.
func (c Change) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Natural reports whether a conversation gives rise to the difference of
// itself, so that nothing is wrong: equal prompts, a longer one, another
// conversation, another way on from the last message.
func (c Change) Natural() bool { return c <= Branched }
