package client

import (
	"encoding/json"
	"slices"
)

// delta puts an object together from the pieces that a stream brings of it: the
// message of an answer, one of its tool calls. Texts are joined as they are
// spelled, without decoding them, so a character that was cut in two (\ud83d in
// one chunk, \ude00 in the next) is whole again.
type delta struct {
	fields []*field // in the order in which they came first
}

// field is one member: a text, an object, a list of calls, or another value.
type field struct {
	name   string
	text   []byte // with its first quote; nil when it is no text
	object *delta
	calls  []*delta // by index; not nil of a list that is empty so far
	value  json.RawMessage
}

// once are the members that an engine may say again in every chunk. Versions of
// vLLM made up a new id for each; the first one counts, as it does for callers.
var once = map[string]bool{"role": true, "id": true, "type": true, "name": true}

func (d *delta) field(name string) *field {
	for _, f := range d.fields {
		if f.name == name {
			return f
		}
	}
	f := &field{name: name}
	d.fields = append(d.fields, f)
	return f
}

// add adds what a chunk says of the object.
func (d *delta) add(piece json.RawMessage) error {
	members, err := membersOf(piece)
	if err != nil {
		return err
	}
	for _, m := range members {
		if isNull(m.value) || m.name == "index" {
			continue
		}
		if err := d.field(m.name).add(m.value); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) add(value json.RawMessage) error {
	switch {
	case f.name == "tool_calls" && value[0] == '[':
		return f.addCalls(value)
	case value[0] == '{':
		if f.object == nil {
			f.object = new(delta)
		}
		return f.object.add(value)
	case value[0] == '"':
		if once[f.name] && len(f.text) > 1 {
			return nil
		}
		if f.text == nil {
			f.text = []byte{'"'}
		}
		f.text = append(f.text, value[1:len(value)-1]...)
	default:
		f.value = value
	}
	return nil
}

// maxCalls bounds the index of a tool call, which an engine could make
// anything: parallel calls are a handful.
const maxCalls = 1 << 10

func (f *field) addCalls(value json.RawMessage) error {
	var pieces []json.RawMessage
	if err := json.Unmarshal(value, &pieces); err != nil {
		return err
	}
	if f.calls == nil {
		f.calls = []*delta{}
	}
	for i, piece := range pieces {
		var at struct {
			Index *int `json:"index"`
		}
		if err := json.Unmarshal(piece, &at); err != nil {
			return err
		}
		if at.Index != nil {
			i = *at.Index
		}
		if i < 0 || i >= maxCalls {
			return notAppended("a tool call has the index %d", i)
		}
		for len(f.calls) <= i {
			f.calls = append(f.calls, new(delta))
		}
		if err := f.calls[i].add(piece); err != nil {
			return err
		}
	}
	return nil
}

// made returns the calls of which something was said: an engine may count them
// from 1.
func (f *field) made() []*delta {
	return slices.DeleteFunc(slices.Clone(f.calls), func(call *delta) bool { return len(call.fields) == 0 })
}

// append appends the object in JSON.
func (d *delta) append(dst []byte) []byte {
	dst = append(dst, '{')
	for i, f := range d.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		name, _ := json.Marshal(f.name) // a string always can be
		dst = append(append(dst, name...), ':')
		switch {
		case f.text != nil:
			dst = append(append(dst, f.text...), '"')
		case f.object != nil:
			dst = f.object.append(dst)
		case f.calls != nil:
			dst = append(dst, '[')
			for i, call := range f.made() {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = call.append(dst)
			}
			dst = append(dst, ']')
		default:
			dst = append(dst, f.value...)
		}
	}
	return append(dst, '}')
}

// message returns the whole message of an answer, as a plain answer would have
// had it. The first chunk of vLLM says role "assistant" and content "" of every
// answer, so an empty content beside tool calls is none.
func (d *delta) message() (json.RawMessage, error) {
	if f := d.field("role"); f.text == nil {
		f.text = []byte(`"assistant`)
	}
	content, calls := d.field("content"), false
	for _, f := range d.fields {
		calls = calls || len(f.made()) > 0
	}
	if len(content.text) <= 1 && content.value == nil && (calls || content.text == nil) {
		content.text, content.value = nil, json.RawMessage("null")
	}
	return sendable(d.append(nil))
}
