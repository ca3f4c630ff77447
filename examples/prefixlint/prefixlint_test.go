package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const policy = "You answer questions about orders. Refunds need a receipt; parcels that were sent cannot be stopped. " +
	"Ask for the number of the order before you look anything up, and never promise a date that no tool has told you. "

var toolNames = []string{"find_order", "cancel_order", "list_parcels", "refund"}

func object(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

type message map[string]any

func tools(names []string) []any {
	var all []any
	for _, n := range names {
		all = append(all, message{"type": "function", "function": message{
			"name": n, "description": "Use it to " + strings.ReplaceAll(n, "_", " ") + ".",
			"parameters": message{"type": "object", "properties": message{"id": message{"type": "string"}}, "required": []string{"id"}},
		}})
	}
	return all
}

// conversation returns the bodies of a conversation that grows by a turn each;
// system makes the system text of request n.
func conversation(id, turns int, system func(n int) string, names func(n int) []string) []string {
	var bodies []string
	history := []message{}
	for n := range turns {
		history = append(history, message{"role": "user", "content": fmt.Sprintf("Question %d of customer %d: %s", n, id, strings.Repeat("where is it? ", 10))})
		bodies = append(bodies, object(message{
			"model": "m", "tools": tools(names(n)),
			"messages": append([]message{{"role": "system", "content": system(n)}}, history...),
		}))
		history = append(history, message{"role": "assistant", "content": fmt.Sprintf("Answer %d to customer %d. %s", n, id, strings.Repeat("It is on its way. ", 10))})
	}
	return bodies
}

func inOrder(int) []string { return toolNames }

// clock is a log of 3 conversations of 4 turns, with the time in the middle of
// the system text.
func clock() string {
	var lines []string
	minute := 0
	for id := range 3 {
		lines = append(lines, conversation(id, 4, func(int) string {
			minute++
			return policy + fmt.Sprintf("The current time is 2026-03-01 14:%02d:09. Be brief.", minute)
		}, inOrder)...)
	}
	return strings.Join(lines, "\n") + "\n"
}

func lint(t *testing.T, args []string, input string) (out, errs string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(args, strings.NewReader(input), &o, &e)
	return o.String(), e.String(), status
}

func reportOf(t *testing.T, input string) Report {
	t.Helper()
	out, errs, status := lint(t, []string{"-json", "-"}, input)
	require.Zero(t, status, errs)
	var r struct {
		Report
	}
	// Change marshals as a word and is not read back; the words are looked at in out.
	out = strings.NewReplacer(`"change": "`, `"change_name": "`).Replace(out)
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	return r.Report
}

func TestTimestampInSystemText(t *testing.T) {
	out, errs, status := lint(t, []string{"-"}, clock())
	require.Zero(t, status, errs)
	t.Log("\n" + out)
	at := len(policy) + len("The current time is 2026-03-01 14:0")
	require.Contains(t, out, "volatile-text: 11 times")
	require.Contains(t, out, fmt.Sprintf("first in line 2, against line 1: at messages[0].content byte %d (system), a time, ", at))
	require.Contains(t, out, `"2026-03-01 14:01:09" and "2026-03-01 14:02:09"`)
	require.Contains(t, out, "moving it to the end of the prompt would win")

	r := reportOf(t, clock())
	require.Len(t, r.Groups, 1)
	g := r.Groups[0]
	require.Equal(t, 12, g.Requests)
	require.Equal(t, 3, g.Conversations)
	require.Len(t, g.Breaks, 1)
	require.Equal(t, 0, g.Breaks[0].First.Message)
	require.Equal(t, at, g.Breaks[0].First.Offset)
	require.Equal(t, g.Sharing.AsSent, g.Sharing.Canonical, "canonicalization cannot help here")

	// What it says moving the time would win is what moving the time wins.
	moved := ""
	minute := 0
	for id := range 3 {
		for _, body := range conversation(id, 4, func(int) string { return policy + "The current time is . Be brief." }, inOrder) {
			minute++
			var m message
			require.NoError(t, json.Unmarshal([]byte(body), &m))
			m["messages"] = append(m["messages"].([]any), message{"role": "user", "content": fmt.Sprintf("2026-03-01 14:%02d:09", minute)})
			moved += object(m) + "\n"
		}
	}
	after := reportOf(t, moved)
	require.InDelta(t, after.Sharing.Canonical, g.Sharing.Steady, 12*20, "within what a role and a time take")
	require.InDelta(t, g.Sharing.Steady-g.Sharing.Canonical, g.Breaks[0].Winnable, 12*20)
	require.Greater(t, g.Sharing.Steady, 5*g.Sharing.Canonical/4)
}

func TestShuffledToolsAreMended(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var lines []string
	for id := range 3 {
		lines = append(lines, conversation(id, 4, func(int) string { return policy }, func(int) []string {
			names := make([]string, len(toolNames))
			for i, k := range random.Perm(len(names)) {
				names[i] = toolNames[k]
			}
			return names
		})...)
	}
	log := strings.Join(lines, "\n")
	out, _, status := lint(t, []string{"-"}, log)
	require.Zero(t, status)
	require.Contains(t, out, "tool-order: ")
	require.Contains(t, out, "canonicalization removes it")
	require.Contains(t, out, "tool-order: ", "in single requests as well")
	r := reportOf(t, log)
	require.Greater(t, r.Sharing.Canonical, 2*r.Sharing.AsSent)
	require.Len(t, r.Groups[0].Breaks, 1)
	require.True(t, r.Groups[0].Breaks[0].Mended)
}

func TestGroupsAndNothingWrong(t *testing.T) {
	var lines []string
	lines = append(lines, conversation(1, 3, func(int) string { return policy }, inOrder)...)
	lines = append(lines, object(message{"model": "m", "messages": []message{{"role": "system", "content": "Name this conversation in three words."}, {"role": "user", "content": "x"}}}))
	lines = append(lines, object(message{"model": "other", "messages": []message{{"role": "user", "content": "x"}}}))
	out, _, status := lint(t, []string{"-"}, strings.Join(lines, "\n"))
	require.Zero(t, status)
	require.Contains(t, out, "5 requests in 3 groups")
	require.Equal(t, 3, strings.Count(out, "nothing breaks the prefix"))
}

func TestWrappedBodiesAreOrderedByTime(t *testing.T) {
	bodies := conversation(1, 3, func(int) string { return policy }, inOrder)
	var lines []string
	for _, i := range []int{2, 0, 1} {
		lines = append(lines, fmt.Sprintf(`{"timestamp":"2026-03-01T14:0%d:00Z","url":"/v1/chat/completions","body":%s}`, i, bodies[i]))
	}
	out, _, status := lint(t, []string{"-"}, strings.Join(lines, "\n"))
	require.Zero(t, status)
	require.Contains(t, out, "from line 2 on", "the first in time")
	require.Contains(t, out, "nothing breaks the prefix")
	quotedBody := fmt.Sprintf(`{"timestamp":17,"body":%s}`, object(bodies[0]))
	_, errs, status := lint(t, []string{"-"}, quotedBody)
	require.Zero(t, status, errs)
}

func TestWrongInput(t *testing.T) {
	good := conversation(1, 1, func(int) string { return policy }, inOrder)[0]
	for _, tt := range []struct {
		input, want string
	}{
		{"", "-: no requests"},
		{"{]\n", "-: line 1: not JSON at byte 2"},
		{"\n\n7\n", "-: line 3: want an object"},
		{`{"model":"m","prompt":"` + strings.Repeat("a", 33<<20) + `"}`, "-: line 1: canon: body of 34603033 bytes is over the limit of 33554432"},
		{good + "\n" + strings.Repeat("a", 65<<20), "-: line 2 is longer than 64 MiB"},
		{"null", "-: line 1: want an object"},
		{"{\n  \"model\": 1\n}", "line 1: not JSON at byte 1: unexpected end of JSON input (a log has one request on each line"},
		{`{"body":7}`, "line 1: body is not a JSON object"},
		{`{"body":{"messages":[]},"timestamp":"noon"}`, `line 1: timestamp is neither a number nor RFC 3339: "noon"`},
		{`{"model":"m"}`, "line 1: not a request"},
	} {
		out, errs, status := lint(t, []string{"-"}, tt.input)
		require.Equal(t, 2, status, tt.input)
		require.Contains(t, errs, tt.want)
		require.Empty(t, out)
	}
	out, errs, status := lint(t, []string{"-"}, "\xef\xbb\xbf"+good+"\r\n{]\r\n\r\n7\r\n"+good+"\r\n8\r\n9")
	require.Zero(t, status)
	require.Contains(t, out, "2 requests in 1 group")
	require.Contains(t, errs, "4 lines left out of -:\n  line 2: not JSON at byte 2")
	require.Contains(t, errs, "  line 4: want an object")
	require.Contains(t, errs, "  … and 1 more\n")
	for _, args := range [][]string{{}, {"a", "b", "c"}, {"-api", "chart", "-"}, {"nowhere.jsonl"}, {"-x"}} {
		_, errs, status := lint(t, args, good)
		require.Equal(t, 2, status)
		require.NotEmpty(t, errs)
	}
}

func TestTwoFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, body string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
		return path
	}
	bodies := strings.Split(strings.TrimSpace(clock()), "\n")
	a, b := write("a.json", bodies[0]), write("b.json", bodies[1])
	out, errs, status := lint(t, []string{a, b}, "")
	require.Zero(t, status, errs)
	require.Contains(t, out, "volatile-text at messages[0].content byte")
	piped, errs, status := lint(t, []string{a, "-"}, bodies[1])
	require.Zero(t, status, errs)
	require.Equal(t, strings.ReplaceAll(out, b, "-"), piped)
	out, _, status = lint(t, []string{"-json", a, b}, "")
	require.Zero(t, status)
	require.Contains(t, out, `"change": "volatile-text"`)
	_, errs, status = lint(t, []string{a, write("c.json", `{"model":"m","prompt":"x"}`)}, "")
	require.Equal(t, 2, status)
	require.Contains(t, errs, "cannot share a prompt")
	_, errs, status = lint(t, []string{a, write("d.json", `{`)}, "")
	require.Equal(t, 2, status)
	require.Contains(t, errs, "d.json: not JSON")
}

// The trie's answer is the longest common prefix over all earlier prompts.
func TestTrieFindsTheBest(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var tr trie
	var all [][]piece
	for i := range 300 {
		var p []piece
		for range 1 + random.IntN(4) {
			text := make([]byte, random.IntN(5))
			for k := range text {
				text[k] = 'a' + byte(random.IntN(2))
			}
			p = append(p, piece{text: text, size: len(text)})
		}
		want := 0
		for _, q := range all {
			n := 0
			for k := 0; k < len(p) && k < len(q); k++ {
				c := prefix(p[k].text, q[k].text)
				n += c
				if c < len(p[k].text) || c < len(q[k].text) {
					break
				}
			}
			want = max(want, n)
		}
		got, best := tr.add(p, i)
		require.Equal(t, want, got)
		if i > 0 && want > 0 {
			require.GreaterOrEqual(t, best, 0)
		}
		all = append(all, p)
	}
}
