package middleware

import (
	"bytes"
	"encoding/json"
)

// mapReasoning gives each message or delta that has a "reasoning" (vLLM's
// name) a "reasoning_content" of the same value beside it, where there is
// none: go-openai v1.43 decodes only that one, and other SDKs read either.
// Everything else stays as it is, byte for byte. Text that is not a JSON
// object is returned unchanged.
func mapReasoning(body []byte) []byte {
	if !bytes.Contains(body, []byte(`"reasoning"`)) {
		return body
	}
	var shape struct {
		Choices []struct {
			Message map[string]json.RawMessage `json:"message"`
			Delta   map[string]json.RawMessage `json:"delta"`
		} `json:"choices"`
	}
	if json.Unmarshal(body, &shape) != nil {
		return body
	}
	out, rest := make([]byte, 0, len(body)+len(body)/2), body
	for _, choice := range shape.Choices {
		for _, part := range []map[string]json.RawMessage{choice.Message, choice.Delta} {
			value, ok := part["reasoning"]
			if !ok || string(value) == "null" {
				continue
			}
			if old, ok := part["reasoning_content"]; ok {
				if string(old) != "null" {
					continue
				}
				// A second member of that name would leave the null to win.
				i := memberAt(rest, "reasoning_content", old)
				if i < 0 {
					return body
				}
				i += bytes.Index(rest[i:], old)
				out = append(append(out, rest[:i]...), value...)
				rest = rest[i+len(old):]
				continue
			}
			i := memberAt(rest, "reasoning", value)
			if i < 0 {
				return body
			}
			out = append(out, rest[:i]...)
			out = append(out, `"reasoning_content":`...)
			out = append(out, value...)
			out = append(out, ',')
			end := i + len(`"reasoning"`)
			out = append(out, rest[i:end]...)
			rest = rest[end:]
		}
	}
	return append(out, rest...)
}

// memberAt returns where the member of that name and value begins, or -1.
func memberAt(body []byte, name string, value []byte) int {
	quoted := []byte(`"` + name + `"`)
	for from := 0; ; {
		i := bytes.Index(body[from:], quoted)
		if i < 0 {
			return -1
		}
		i += from
		rest := bytes.TrimLeft(body[i+len(quoted):], " \t\r\n")
		if len(rest) > 0 && rest[0] == ':' && bytes.HasPrefix(bytes.TrimLeft(rest[1:], " \t\r\n"), value) {
			return i
		}
		from = i + len(quoted)
	}
}
