package vllmsim

import (
	"encoding/json"
	"fmt"
	"strings"
)

// chatMessage is the part of a message that reaches the model.
type chatMessage struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	Reasoning        *string         `json:"reasoning"`
	ReasoningContent *string         `json:"reasoning_content"`
	ToolCalls        []chatToolCall  `json:"tool_calls"`
}

type chatToolCall struct {
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// toolDefinition has the members that vLLM's protocol declares; it drops others.
type toolDefinition struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"function"`
}

// conversation is what the chat template is given.
type conversation struct {
	Messages            []chatMessage    `json:"messages"`
	Tools               []toolDefinition `json:"tools"`
	Documents           json.RawMessage  `json:"documents"`
	AddGenerationPrompt *bool            `json:"add_generation_prompt"`
	ContinueFinal       bool             `json:"continue_final_message"`
	TemplateKwargs      struct {
		EnableThinking *bool `json:"enable_thinking"` // the only variable that the template knows
	} `json:"chat_template_kwargs"`
}

// ChatPrompt returns the tokens of the prompt that the body of a chat
// completion request stands for, or why it is none.
//
// The template is this package's own, of the family that prints tools first,
// then the messages in order. What it shows of a request is what vLLM hands to
// templates: tools as Python prints them, in the declared order of their
// members (an absent description as null) with the parameters as they came;
// arguments of earlier calls parsed and printed again, invalid ones as {};
// contents without trimming, text parts joined with a line feed; reasoning;
// the results of tools in the order given. Ids of calls, names of participants
// and markers such as cache_control are not shown.
func ChatPrompt(body []byte) ([]uint32, error) {
	var c conversation
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	return c.render()
}

func (c *conversation) render() ([]uint32, error) {
	r := renderer{tokens: []uint32{tokenStart}}
	if err := r.head(c); err != nil {
		return nil, err
	}
	for i, m := range c.Messages {
		open := c.ContinueFinal && i == len(c.Messages)-1
		if err := r.message(&m, open); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	if !c.ContinueFinal && (c.AddGenerationPrompt == nil || *c.AddGenerationPrompt) {
		r.special(tokenAssistant)
		if t := c.TemplateKwargs.EnableThinking; t != nil && !*t {
			r.special(tokenNoThink)
		}
	}
	r.flush()
	return r.tokens, nil
}

// renderer collects text until a special token ends it: text on both sides of
// a member boundary is tokenized together, as in a template's output.
type renderer struct {
	tokens []uint32
	text   []byte
}

func (r *renderer) flush() {
	r.tokens = appendTokens(r.tokens, string(r.text))
	r.text = r.text[:0]
}

func (r *renderer) special(t uint32) {
	r.flush()
	r.tokens = append(r.tokens, t)
}

func (r *renderer) write(s string) { r.text = append(r.text, s...) }

func (r *renderer) head(c *conversation) error {
	documents := len(c.Documents) > 0 && string(c.Documents) != "null"
	if len(c.Tools) == 0 && !documents {
		return nil
	}
	r.special(tokenSystem)
	if len(c.Tools) > 0 {
		r.write("# Tools\nOne function a line:\n")
		for i := range c.Tools {
			if err := r.tool(&c.Tools[i]); err != nil {
				return fmt.Errorf("tools[%d]: %w", i, err)
			}
		}
	}
	if documents {
		r.write("# Documents\n")
		if err := r.json(c.Documents); err != nil {
			return fmt.Errorf("documents: %w", err)
		}
	}
	r.special(tokenEnd)
	return nil
}

func (r *renderer) tool(t *toolDefinition) error {
	if t.Type == "" {
		t.Type = "function"
	}
	r.text = append(r.text, `{"type": `...)
	r.text = appendPythonString(r.text, t.Type)
	r.text = append(r.text, `, "function": {"name": `...)
	r.text = appendPythonString(r.text, t.Function.Name)
	r.text = append(r.text, `, "description": `...)
	if t.Function.Description == nil {
		r.write("null")
	} else {
		r.text = appendPythonString(r.text, *t.Function.Description)
	}
	r.write(`, "parameters": `)
	if len(t.Function.Parameters) == 0 {
		r.write("null")
	} else if err := r.json(t.Function.Parameters); err != nil {
		return err
	}
	if t.Function.Strict != nil {
		r.write(`, "strict": ` + fmt.Sprint(*t.Function.Strict))
	}
	r.write("}}\n")
	return nil
}

func (r *renderer) json(raw json.RawMessage) error {
	text, err := dumpJSON(r.text, raw)
	if err == nil {
		r.text = text
	}
	return err
}

func (r *renderer) message(m *chatMessage, open bool) error {
	switch m.Role {
	case "system", "developer":
		r.special(tokenSystem)
	case "user":
		r.special(tokenUser)
	case "assistant":
		r.special(tokenAssistant)
	case "tool", "function":
		r.special(tokenTool)
	default:
		return fmt.Errorf("role %q is not one of system, developer, user, assistant, tool", m.Role)
	}
	reasoning := m.Reasoning
	if reasoning == nil {
		reasoning = m.ReasoningContent // vLLM renames it when the other is absent
	}
	if m.Role == "assistant" && reasoning != nil && *reasoning != "" {
		r.special(tokenThink)
		r.write(*reasoning)
		r.special(tokenThinkEnd)
	}
	if err := r.content(m.Content); err != nil {
		return err
	}
	for i := range m.ToolCalls {
		f := &m.ToolCalls[i].Function
		r.special(tokenCall)
		r.write(`{"name": `)
		r.text = appendPythonString(r.text, f.Name)
		r.write(`, "arguments": `)
		r.arguments(f.Arguments)
		r.write("}")
		r.special(tokenCallEnd)
	}
	if open {
		r.flush()
	} else {
		r.special(tokenEnd)
	}
	return nil
}

// arguments shows the JSON text inside the string, or {} when there is none.
func (r *renderer) arguments(raw json.RawMessage) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if string(raw) == "null" || r.json(raw) != nil {
		r.write("{}")
	}
}

func (r *renderer) content(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		r.write(s)
		return nil
	}
	var parts []struct {
		Type     string  `json:"type"`
		Text     *string `json:"text"`
		Refusal  *string `json:"refusal"`
		Thinking *string `json:"thinking"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return fmt.Errorf("content is neither a string nor a list of parts: %w", err)
	}
	var texts []string
	for _, p := range parts {
		switch {
		case p.Type == "image_url":
			r.image(p.ImageURL.URL)
		case p.Text != nil:
			texts = append(texts, *p.Text)
		case p.Refusal != nil:
			texts = append(texts, *p.Refusal)
		case p.Thinking != nil:
			texts = append(texts, *p.Thinking)
		case p.Type != "text" && p.Type != "refusal" && p.Type != "thinking":
			return fmt.Errorf("part of unknown type %q", p.Type)
		}
	}
	r.write(strings.Join(texts, "\n"))
	return nil
}

// imageTokens is assumed: placeholders of one image, whatever its size.
const imageTokens = 256

// image stands for a picture. Its identity is that of its URL, where vLLM
// hashes the pixels.
func (r *renderer) image(url string) {
	r.special(tokenImage)
	id := pieceID(url)
	for range imageTokens - 1 {
		r.tokens = append(r.tokens, id)
	}
}
