package main

import (
	"bytes"
	"encoding/json"
	"hash/maphash"

	"github.com/prefixwise/prefixwise/canon"
)

// origin is what requests of one program have in common.
type origin struct {
	api   canon.API
	model string
	tools map[uint64]bool
	words map[uint64]bool // of the system text, without what looks volatile
}

var seed = maphash.MakeSeed()

// maxWords bounds the words of a system text that are compared: the first 2,000
// tell programs apart.
const maxWords = 2000

func originOf(o *canon.Outline) origin {
	g := origin{api: o.API, tools: map[uint64]bool{}, words: map[uint64]bool{}}
	for i := range o.Segments {
		switch s := &o.Segments[i]; {
		case s.Kind == canon.ModelSegment:
			g.model = string(s.Text)
		case s.Kind == canon.ToolSegment:
			g.tools[maphash.Bytes(seed, toolName(s.Text))] = true
		case isSystemText(s):
			for _, w := range bytes.Fields(canon.Steady(s)) {
				if len(g.words) == maxWords {
					break
				}
				g.words[maphash.Bytes(seed, w)] = true
			}
		}
	}
	return g
}

func isSystemText(s *canon.Segment) bool {
	return s.Kind == canon.TextSegment && (s.Role == "system" || s.Role == "developer")
}

func toolName(tool []byte) []byte {
	var t struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(tool, &t) != nil {
		return nil
	}
	if t.Function.Name != "" {
		return []byte(t.Function.Name)
	}
	return []byte(t.Name)
}

// like reports whether two origins are most likely one program: half of the
// tools and of the words of the smaller one are in the other.
func (g origin) like(o origin) bool {
	return g.api == o.api && g.model == o.model && overlap(g.tools, o.tools) && overlap(g.words, o.words)
}

func overlap(a, b map[uint64]bool) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	common := 0
	for k := range a {
		if b[k] {
			common++
		}
	}
	return len(a) == 0 && len(b) == 0 || len(a) > 0 && 2*common >= len(a)
}

// conversationOf identifies a conversation by the first message of its user.
func conversationOf(o *canon.Outline) uint64 {
	for _, m := range messagesOf(o) {
		if m.role == "user" {
			return m.hash
		}
	}
	return 0
}

// said is a message of a user or an assistant, by its text.
type said struct {
	role string
	hash uint64
	size int
}

// messagesOf returns the messages of users and assistants.
func messagesOf(o *canon.Outline) []said {
	var all []said
	for i := 0; i < len(o.Segments); {
		first := &o.Segments[i]
		var h maphash.Hash
		h.SetSeed(seed)
		m := said{role: first.Role}
		for ; i < len(o.Segments) && o.Segments[i].Message == first.Message; i++ {
			text := canon.Steady(&o.Segments[i])
			h.Write(text)
			m.size += len(text)
		}
		m.hash = h.Sum64()
		if first.Message >= 0 && (m.role == "user" || m.role == "assistant") {
			all = append(all, m)
		}
	}
	return all
}

// headSize returns the bytes of prompt before the first message that is not
// system text.
func headSize(o *canon.Outline) int {
	n := 0
	for i := range o.Segments {
		s := &o.Segments[i]
		if s.Message >= 0 && s.Role != "system" && s.Role != "developer" {
			break
		}
		n += s.Size
	}
	return n
}
