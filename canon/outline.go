package canon

import (
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// SegmentKind says what a [Segment] holds. The kinds of the head come first,
// in the order in which a prompt has them.
type SegmentKind uint8

// The kinds of segment.
const (
	ModelSegment     SegmentKind = iota // the model or adapter
	SaltSegment                         // cache_salt
	TemplateSegment                     // another field that changes the whole prompt, such as chat_template_kwargs
	ToolSegment                         // one tool, as JSON
	RoleSegment                         // the role that opens a message
	FieldSegment                        // a name, id, type or unknown member of a message
	ReasoningSegment                    // the reasoning of an assistant
	TextSegment                         // text
	CallSegment                         // a member of a tool call: its id, function.name, function.arguments
	MediaSegment                        // an image, or another part that is not text
	TokensSegment                       // a list of token ids
	TailSegment                         // a field that changes what follows the last message
	RawSegment                          // a whole body that was left untouched
)

var segmentNames = [...]string{
	"model", "salt", "template", "tool", "role", "field", "reasoning", "text", "call", "media", "tokens", "tail", "raw",
}

// String returns the kind in lower case, such as "tool".
func (k SegmentKind) String() string {
	if int(k) < len(segmentNames) {
		return segmentNames[k]
	}
	return "SegmentKind(" + strconv.Itoa(int(k)) + ")"
}

// Segment is a piece of a prompt: one text, one tool, one field.
type Segment struct {
	Kind    SegmentKind
	Name    string // the member's name, such as content or function.arguments; "" for a tool
	Path    string // where it is in the canonical body, such as messages[3].content; long names are cut
	Message int    // index of its message in the canonical body, -1 before the first
	Role    string // of its message; "system" for system text outside the messages, "" before the first
	Text    []byte // decoded if it is a string, canonical JSON otherwise
	Size    int    // bytes of prompt it takes, counted as in Boundary.Offset; 0 for what is hashed but not text
	decoded bool   // Text is a decoded string: "1" is not 1
}

// Same reports whether two segments add the same to a prompt. Their paths do
// not count: one text can be at content[0].text and at content.
func (s *Segment) Same(o *Segment) bool {
	return s.matches(o) && string(s.Text) == string(o.Text)
}

// matches reports whether two segments stand in the same place of a prompt.
func (s *Segment) matches(o *Segment) bool {
	return s.Kind == o.Kind && s.Message == o.Message && s.decoded == o.decoded && s.Name == o.Name
}

// Outline is the prompt of a request, piece by piece, in the order in which an
// engine sees it.
type Outline struct {
	API       API
	Diagnosis Diagnosis // as in Result; then Segments is the raw body alone
	Segments  []Segment
	Size      int // bytes of prompt in all
}

// Outline canonicalizes a body and takes its prompt apart: what canon hashes,
// for programs that compare prompts. It is meant for diagnosis, not for every
// request: it costs several times what Canonicalize does. The only error is a
// *SizeError.
func (c *Canonicalizer) Outline(api API, body []byte) (Outline, error) {
	r, err := c.Canonicalize(api, body)
	if err != nil {
		return Outline{}, err
	}
	if r.Diagnosis.Code != OK {
		return rawOutline(api, body, r.Diagnosis), nil
	}
	o := outliner{out: Outline{API: api}}
	o.read(r.Body)
	o.message = -1
	o.document()
	return o.out, nil
}

func rawOutline(api API, body []byte, d Diagnosis) Outline {
	return Outline{
		API: api, Diagnosis: d, Size: len(body),
		Segments: []Segment{{Kind: RawSegment, Message: -1, Text: body, Size: len(body)}},
	}
}

// outliner walks a canonical body in the order of promptWalk, whose offsets it
// reproduces.
type outliner struct {
	reader
	out     Outline
	message int
	role    string
}

func (o *outliner) add(k SegmentKind, name, path string, text []byte, size int) {
	o.out.Segments = append(o.out.Segments, Segment{
		Kind: k, Name: name, Path: path, Message: o.message, Role: o.role, Text: text, Size: size,
	})
	o.out.Size += size
}

// value adds a value of the document.
func (o *outliner) value(k SegmentKind, name, path string, i uint32, size int) {
	o.add(k, name, path, o.valueOf(i), size)
	o.out.Segments[len(o.out.Segments)-1].decoded = o.kind(i) == kindString
}

// sized adds a value that counts in full.
func (o *outliner) sized(k SegmentKind, name, path string, i uint32) {
	o.value(k, name, path, i, len(o.valueOf(i)))
}

// each calls f for the members of the root with that use, null ones left out.
func (o *outliner) each(u use, f func(name string, val uint32)) {
	for k, end := uint32(1), o.nodes[0].aux; k < end; k = o.next(k + 1) {
		name := string(o.text(k))
		if o.kind(k+1) != kindNull && promptUse(o.out.API, name) == u {
			f(name, k+1)
		}
	}
}

func (o *outliner) document() {
	o.each(useModel, func(name string, val uint32) { o.value(ModelSegment, name, name, val, 0) })
	o.each(useHead, o.headField)
	o.each(useTools, o.tools)
	o.role = "system"
	o.each(useSystem, func(name string, val uint32) { o.content(name, name, val) })
	o.role = ""
	o.each(usePrompt, o.prompt)
	o.message, o.role = -1, ""
	o.each(useTail, func(name string, val uint32) {
		if standard := name != "continue_final_message" && o.out.API != Embeddings; (o.kind(val) == kindTrue) != standard {
			o.value(TailSegment, name, name, val, 0)
		}
	})
}

func (o *outliner) headField(name string, val uint32) {
	value := o.valueOf(val)
	kind, path, size := TemplateSegment, name, 0
	switch name {
	case "add_special_tokens":
		if (o.kind(val) == kindTrue) != (o.out.API == Chat) {
			return
		}
	case "chat_template_kwargs":
		if string(value) == "{}" {
			return
		}
	case "thinking", "output_config":
		if o.kind(val) == kindObject {
			member := "type"
			if name == "output_config" {
				member = "effort"
			}
			if val = o.member(val, member); val == 0 || o.kind(val) == kindNull {
				return
			}
			path += "." + member
		}
	case "cache_salt":
		kind = SaltSegment
	case "documents":
		size = len(value)
		if o.kind(val) == kindString {
			size = len(o.jsonOf(val))
		}
	}
	o.value(kind, name, path, val, size)
}

// tools adds the tools one by one. Each counts with the comma or bracket after
// it, the first with the opening bracket too.
func (o *outliner) tools(name string, val uint32) {
	if o.kind(val) != kindArray || o.nodes[val].aux == val+1 {
		o.value(ToolSegment, name, name, val, len(o.jsonOf(val)))
		return
	}
	extra := 2
	index := 0
	for k, end := val+1, o.nodes[val].aux; k < end; k = o.next(k) {
		o.value(ToolSegment, "", indexed(name, index), k, len(o.jsonOf(k))+extra)
		extra = 1
		index++
	}
}

func (o *outliner) prompt(name string, val uint32) {
	list := o.kind(val) == kindArray
	switch {
	case list && (name == "messages" || o.out.API == Responses):
		index := 0
		for k, end := val+1, o.nodes[val].aux; k < end; k = o.next(k) {
			o.message, o.role = index, ""
			o.messageAt(indexed(name, index), k)
			index++
		}
	case list && !o.isTokens(val):
		index := 0
		for k, end := val+1, o.nodes[val].aux; k < end; k = o.next(k) {
			o.single(index, name, indexed(name, index), k)
			index++
		}
	default:
		o.single(0, name, name, val)
	}
}

func (o *outliner) isTokens(i uint32) bool {
	return o.kind(i) == kindArray && o.nodes[i].aux > i+1 && o.kind(i+1) == kindNumber
}

// single adds a prompt, or an input of an embedding, as a user's message.
func (o *outliner) single(index int, name, path string, i uint32) {
	o.message, o.role = index, "user"
	o.add(RoleSegment, "role", path, userRole, len(userRole))
	switch {
	case o.kind(i) == kindString:
		o.sized(TextSegment, name, path, i)
	case o.isTokens(i):
		v := o.valueOf(i)
		o.add(TokensSegment, name, path, v[1:len(v)-1], len(v)-2)
	default:
		o.value(MediaSegment, name, path, i, 0)
	}
}

// dotted returns the path of a member. Its name is the caller's and can be of any
// length; a path is for people and cuts it.
func dotted(path, name string) string { return path + "." + bounded([]byte(name)) }

func indexed(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// fingerprint hashes what a run of segments adds to a prompt, whichever
// message they are in.
func fingerprint(segments []Segment) uint64 {
	var d xxhash.Digest
	d.Reset()
	for i := range segments {
		s := &segments[i]
		d.Write([]byte{byte(s.Kind)})
		d.WriteString(s.Name)
		d.Write([]byte{0, boolByte(s.decoded)})
		d.WriteString(strconv.Itoa(len(s.Text)))
		d.Write([]byte{0})
		d.Write(s.Text)
	}
	return d.Sum64()
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}
