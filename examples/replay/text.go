package main

import (
	"encoding/json"
	"math"
	"strings"
)

// vocabulary is short words that most tokenizers have as one token each.
var vocabulary = strings.Fields(`
	able about above across act add after again age agree air all also always
	among angle animal answer any apple area arm army art ask atom autumn away
	baby back ball band bank bar base basic bat bear beat bed before began begin
	bell best better bird bit black block blood blow blue board boat body bone
	book both bottom box boy bread break bring broad brown build burn busy but
	buy call came camp can capital car card care carry case cat catch cause cell
	cent center chair chance change chart check chief child choose circle city
	claim class clean clear climb clock close cloth cloud coast coat cold collect
	color column come common company complete cook cool copy corn corner correct
	cost cotton could count country course cover cow create crop cross crowd cry
	current cut dance danger dark day dead deal dear death decide deep degree
	design did differ dinner direct discuss distant divide doctor does dog dollar
	done door double down draw dream dress drink drive drop dry duck during each
	early earth ease east eat edge effect egg eight either element else end enemy
	energy engine enough enter equal even evening event ever every exact example`)

// writer makes text out of hashes: the same words for the same hash at the same
// place. How many words a token has is asked of the engine (see calibrate).
type writer struct {
	tokensPerWord float64
	overhead      float64 // tokens of a prompt that are not of its words: the chat template's
}

// words returns the number of words before a token of the prompt.
func (w writer) words(token int) int { return int(math.Round(float64(token) / w.tokensPerWord)) }

// message writes the prompt's tokens from one place to another.
func (w writer) message(t *trace, r *request, l *layout, from, to int) string {
	var b strings.Builder
	first, last := w.words(from), w.words(to)
	for i := first; i < last; i++ {
		if i > first {
			b.WriteByte(' ')
		}
		h := t.blockAt(r, l, int(float64(i)*w.tokensPerWord))
		b.WriteString(vocabulary[mix(h^uint64(i)<<32)%uint64(len(vocabulary))])
	}
	return b.String()
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// body returns the chat request that stands for a prompt of hashes. Its answer
// is exactly as long as the trace says where the engine heeds ignore_eos.
func (w writer) body(t *trace, r *request, l *layout, model string) ([]byte, error) {
	var messages []chatMessage
	from := 0
	for i, m := range l.messages {
		to := m.end
		if i == len(l.messages)-1 {
			to = max(from+1, to-int(w.overhead))
		}
		messages = append(messages, chatMessage{m.role, w.message(t, r, l, from, to)})
		from = m.end
	}
	return json.Marshal(map[string]any{
		"model": model, "messages": messages, "stream": true, "max_tokens": r.output, "temperature": 0, "ignore_eos": true,
	})
}
