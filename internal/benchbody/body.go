// Package benchbody makes the request bodies that canon is measured on, here and
// in internal/canonbench. No program imports it.
package benchbody

import (
	"fmt"
	"strings"
)

// Chat builds a chat of about size bytes with n tools, as a client with
// another JSON library spells it: members in the order of that client's
// structs, spaces after separators, HTML escapes in some texts, newlines and
// quotes in more, tools and schema keywords unsorted. Tools take up to 30 % of
// the bytes. The messages are a little denser than the tau-bench trajectories,
// which have one JSON value or name for every 70 bytes and an escape for every
// 23.
func Chat(size, n int) []byte {
	var b strings.Builder
	b.WriteString(`{"temperature": 0.7, "stream": false, "messages": [{"role": "system", "content": "You help with orders.\nBe brief, and ask when unsure."}`)
	list := tools(size, n)
	const sentence = "The parcel left the depot on time and was scanned twice on its way to the customer. "
	for turn := 1; b.Len()+len(list)+600 < size; turn++ {
		text := strings.Repeat(sentence, 3+turn%3)
		switch turn % 8 {
		case 0:
			text += `if a \u003c b \u0026\u0026 c \u003e d then notify(\"\u00e9quipe\")`
		case 1, 3, 5:
			text = strings.ReplaceAll(text, ". ", `.\n`)
		}
		fmt.Fprintf(&b, `, {"role": "user", "content": "%s"}`, text)
		if b.Len()+len(list)+2400 > size {
			continue // the rest in small steps
		}
		fmt.Fprintf(&b, `, {"role": "assistant", "content": null, "tool_calls": [{"id": "call_%06d", "type": "function", "function": {"name": "lookup_order", "arguments": "{\"order_id\": \"A-%d\", \"verbose\": true}"}}]}`, turn, turn)
		fmt.Fprintf(&b, `, {"role": "tool", "tool_call_id": "call_%06d", "name": "lookup_order", "content": "{\"status\": \"in transit\", \"steps\": [%d, %d], \"events\": [%s], \"note\": \"left at the door\"}"}`,
			turn, turn, turn+1, strings.Repeat(`{\"at\": \"2024-05-20T10:00:00Z\", \"what\": \"scanned by hand\", \"where\": \"depot 7, gate 12\"}, `, 7)+`null`)
		fmt.Fprintf(&b, `, {"role": "assistant", "content": "It left the depot, and was scanned %d times.\n%sAnything else?"}`, turn, strings.Repeat(sentence, 4))
	}
	b.WriteString(`]`)
	b.WriteString(list)
	b.WriteString(`, "model": "org/some-model-8b"}`)
	return []byte(b.String())
}

func tools(size, n int) string {
	if n == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(`, "tools": [`)
	each := size * 3 / 10 / n
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		start := b.Len()
		fmt.Fprintf(&b, `{"type": "function", "function": {"name": "tool_%02d", "description": "Does the work of step %d; use it when a \u003e b.", "parameters": {"type": "object", "properties": {"id": {"type": "string", "description": "what to look up"}`, (i*7)%n, i)
		for p := 0; b.Len()-start+150 < each; p++ {
			fmt.Fprintf(&b, `, "field_%d": {"type": "string", "description": "A value of some sort, in words.", "enum": ["one", "two"]}`, p)
		}
		b.WriteString(`}, "required": ["id"], "additionalProperties": false}}}`)
	}
	b.WriteString("]")
	return b.String()
}
