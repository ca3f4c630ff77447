package vllmsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// toolCall is an answer that calls a function. Answers are calls only when the
// request forces one (tool_choice "required" or a name): whether a model would
// call by itself cannot be simulated.
type toolCall struct {
	id     string
	name   string
	pieces []string // of the arguments, one for each token
}

// forced returns the function that a request makes the model call, nil if none.
func forced(choice json.RawMessage, tools []toolDefinition, seed uint64) (*toolDefinition, *apiError) {
	var word string
	if json.Unmarshal(choice, &word) == nil {
		if word == "required" && len(tools) > 0 {
			return &tools[mix(seed)%uint64(len(tools))], nil
		}
		return nil, nil
	}
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if len(choice) == 0 || json.Unmarshal(choice, &named) != nil {
		return nil, nil
	}
	for i := range tools {
		if tools[i].Function.Name == named.Function.Name {
			return &tools[i], nil
		}
	}
	return nil, badParam("tool_choice", "The tool specified in `tool_choice` does not match any of the specified `tools`")
}

// newToolCall makes up arguments that fit the function's schema.
func newToolCall(t *toolDefinition, seed uint64) *toolCall {
	c := &toolCall{id: fmt.Sprintf("chatcmpl-tool-%016x", mix(seed)), name: t.Function.Name}
	for s := string(madeUp(nil, t.Function.Parameters, seed)); len(s) > 0; {
		n := pieceLen(s)
		c.pieces = append(c.pieces, s[:n])
		s = s[n:]
	}
	return c
}

// madeUp appends a value of a schema. It knows types, properties and enum;
// what it does not know becomes a string.
func madeUp(dst []byte, schema json.RawMessage, seed uint64) []byte {
	var s struct {
		Type       any               `json:"type"`
		Enum       []json.RawMessage `json:"enum"`
		Properties json.RawMessage   `json:"properties"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return append(dst, "{}"...)
	}
	if len(s.Enum) > 0 {
		return append(dst, s.Enum[mix(seed)%uint64(len(s.Enum))]...)
	}
	switch s.Type {
	case "object":
		return madeUpObject(dst, s.Properties, seed)
	case "array":
		return append(dst, "[]"...)
	case "integer", "number":
		return strconv.AppendUint(dst, mix(seed)%100, 10)
	case "boolean":
		return strconv.AppendBool(dst, mix(seed)%2 == 0)
	case "null":
		return append(dst, "null"...)
	}
	return appendPythonString(dst, answerWord(seed, 0))
}

// madeUpObject gives every property a value, in the order of the schema.
func madeUpObject(dst []byte, properties json.RawMessage, seed uint64) []byte {
	dec := json.NewDecoder(bytes.NewReader(properties))
	dst = append(dst, '{')
	dec.Token()
	for i := 0; dec.More(); i++ {
		name, err := dec.Token()
		var schema json.RawMessage
		if err != nil || dec.Decode(&schema) != nil {
			break
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendPythonString(dst, fmt.Sprint(name))
		dst = append(dst, ": "...)
		dst = madeUp(dst, schema, seed+uint64(i)+1)
	}
	return append(dst, '}')
}

// chatCall is the form of a call in answers; index only in streams.
type chatCall struct {
	Index    *int             `json:"index,omitempty"`
	ID       string           `json:"id,omitempty"`
	Type     string           `json:"type,omitempty"`
	Function chatCallFunction `json:"function"`
}

type chatCallFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// force turns the answers of a job into calls where the request asks for that.
func (j *job) force(req *chatRequest, limit *int) *apiError {
	for i := range j.choices {
		c := &j.choices[i]
		tool, e := forced(req.ToolChoice, req.Tools, c.seed)
		if e != nil || tool == nil {
			return e
		}
		c.call = newToolCall(tool, c.seed)
		c.length, c.finish = len(c.call.pieces), "tool_calls"
		if limit != nil && c.length > *limit {
			c.length, c.finish = *limit, "length"
		}
		w := &j.work[i]
		w.OutputTokens, w.Cut = c.length, c.finish == "length"
		if w.Tokens != nil {
			w.Tokens = appendTokens(w.Tokens[:c.tokens], c.text(0, c.length))
		}
	}
	return nil
}
