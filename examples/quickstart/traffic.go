package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sashabaranov/go-openai"
)

// kind is one of the ways in which the traffic uses the fleet.
type kind int

const (
	chat   kind = iota // a person talks to an assistant
	agent              // a program calls tools in a loop
	reader             // a person asks one question after the other about a document
	desk               // several people ask one question each about the same document
)

// A thread is a sequence of requests that have a beginning in common. Each
// request waits for the answer to the one before it.
type thread struct {
	kind    kind
	session string // given with client.WithSession; "" leaves it to the prompt
	head    []openai.ChatCompletionMessage
	tools   []openai.Tool
	turns   []turn
}

// A turn is one request.
type turn struct {
	due   time.Duration                  // when it is sent, unless the answer before it is late
	add   []openai.ChatCompletionMessage // what follows the messages so far
	calls []openai.ToolCall              // what the assistant calls in its answer
	limit int                            // tokens of the answer at most
}

// remembers tells whether the answers are part of the later prompts.
func (t *thread) remembers() bool { return t.kind != desk }

// A mix says how much there is of each kind, in what time it comes, and what
// fleet it is meant for.
type mix struct {
	chats, chatTurns, chatWords  int // people, their messages, words of a message
	agents, agentSteps, logLines int // agents, their requests, lines of a tool's result
	readers, desks               int // documents
	questions, documentWords     int // to each document, and in it

	span        time.Duration // from the first request to the last
	instances   int
	cacheTokens int     // of each instance
	speed       float64 // how many times as fast as the simulator's default
}

// standard is the mix that the package comment describes. What the whole of it
// would fill of a cache is four times 146,000 tokens.
var standard = mix{
	chats: 48, chatTurns: 10, chatWords: 120,
	agents: 30, agentSteps: 12, logLines: 20,
	readers: 18, desks: 18, questions: 10, documentWords: 6000,
	span: 20 * time.Second, instances: 4, cacheTokens: 146_000, speed: 6,
}

func (m mix) requests() int {
	return m.chats*m.chatTurns + m.agents*m.agentSteps + (m.readers+m.desks)*m.questions
}

// threads writes the traffic: the same at every call.
func (m mix) threads() []*thread {
	var all []*thread
	for i := range m.chats {
		all = append(all, m.chat(i))
	}
	for i := range m.agents {
		all = append(all, m.agent(i))
	}
	for i := range m.readers {
		all = append(all, m.reader(i))
	}
	for i := range m.desks {
		all = append(all, m.desk(i))
	}
	return all
}

// pace lays n turns over the span: the first within the first fifth of a
// turn's share and the rest at equal distances, each off by up to a fifth.
func (m mix) pace(a author, n int) []turn {
	turns := make([]turn, n)
	step := float64(m.span) / float64(n)
	start := a.Float64()
	for i := range turns {
		at := (float64(i) + 0.8*start + 0.2*a.Float64()) * step
		turns[i].due = time.Duration(at)
	}
	return turns
}

func (m mix) chat(number int) *thread {
	a := newAuthor(chat, number)
	t := &thread{kind: chat, head: []openai.ChatCompletionMessage{system(chatPolicy)}, turns: m.pace(a, m.chatTurns)}
	for i := range t.turns {
		t.turns[i].add = []openai.ChatCompletionMessage{user(a.words(m.chatWords/2 + a.IntN(m.chatWords)))}
		t.turns[i].limit = 100
	}
	return t
}

func (m mix) agent(number int) *thread {
	a := newAuthor(agent, number)
	t := &thread{kind: agent, head: []openai.ChatCompletionMessage{system(agentPolicy)}, tools: agentTools, turns: m.pace(a, m.agentSteps)}
	next := []openai.ChatCompletionMessage{user(fmt.Sprintf("Alert %d: %s", 4000+number, a.words(50+a.IntN(30))))}
	for i := range t.turns {
		id := fmt.Sprintf("call_%d_%d", number, i)
		t.turns[i].add, t.turns[i].limit = next, 40
		t.turns[i].calls = []openai.ToolCall{a.call(id)}
		next = []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleTool, ToolCallID: id, Content: a.logLines(m.logLines/2 + a.IntN(m.logLines))}}
	}
	t.turns[len(t.turns)-1].calls = nil // the last answer is the report
	return t
}

func (a author) call(id string) openai.ToolCall {
	arguments, err := json.Marshal(map[string]any{"service": vocabulary[a.IntN(len(vocabulary))], "minutes": 5 + a.IntN(55)})
	if err != nil { // a string and a number
		panic(err)
	}
	return openai.ToolCall{ID: id, Type: openai.ToolTypeFunction, Function: openai.FunctionCall{
		Name: agentTools[a.IntN(len(agentTools))].Function.Name, Arguments: string(arguments)}}
}

func (m mix) reader(number int) *thread {
	a := newAuthor(reader, number)
	t := &thread{kind: reader, head: []openai.ChatCompletionMessage{system(readerPolicy)}, turns: m.pace(a, m.questions)}
	for i := range t.turns {
		question := a.question()
		if i == 0 {
			question = a.document(m.documentWords*4/5+a.IntN(m.documentWords*2/5)) + "\n\n" + question
		}
		t.turns[i].add, t.turns[i].limit = []openai.ChatCompletionMessage{user(question)}, 100
	}
	return t
}

func (m mix) desk(number int) *thread {
	a := newAuthor(desk, number)
	document := a.document(m.documentWords*4/5 + a.IntN(m.documentWords*2/5))
	t := &thread{
		kind:    desk,
		session: fmt.Sprintf("document-%d", number),
		head:    []openai.ChatCompletionMessage{system(readerPolicy + "\n\n" + document)},
		turns:   m.pace(a, m.questions),
	}
	for i := range t.turns {
		t.turns[i].add, t.turns[i].limit = []openai.ChatCompletionMessage{user(a.question())}, 100
	}
	return t
}

func (a author) question() string { return "Question: " + a.words(15+a.IntN(15)) }

func system(text string) openai.ChatCompletionMessage {
	return openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem, Content: text}
}

func user(text string) openai.ChatCompletionMessage {
	return openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: text}
}
