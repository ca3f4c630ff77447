package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/examples/internal/program"
	"github.com/prefixwise/prefixwise/internal/vllmsim"
	"github.com/prefixwise/prefixwise/middleware"
)

var testOptions = readOptions{prefixes: []int{4096}, arrivals: 10, users: 2, think: 1, seed: 1}

func read(t *testing.T, lines ...string) *trace {
	t.Helper()
	got, err := readTrace("file", strings.NewReader(strings.Join(lines, "\n")), testOptions)
	require.NoError(t, err)
	got.number()
	return got
}

// body is a chat with a system text and so many turns.
func body(turns int) string {
	messages := []string{fmt.Sprintf(`{"role":"system","content":%q}`, strings.Repeat("You are kind. ", 300))}
	for i := range turns {
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":%q},{"role":"assistant","content":"Yes."}`, strings.Repeat(fmt.Sprint("question ", i, " "), 20)))
	}
	return `{"model":"m","messages":[` + strings.Join(messages, ",") + `,{"role":"user","content":"and now?"}],"max_tokens":30}`
}

// Two prompts share their text up to where it parts, not only up to the last
// boundary that a client has, when it is known how long they are.
func TestSharedText(t *testing.T) {
	chat := func(end string) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, strings.Repeat("the same text ", 40)+end)
	}
	bodies := []string{chat(strings.Repeat("and one end ", 20)), chat(strings.Repeat("or another one ", 20))}
	var tokens [2][]uint32
	for i, b := range bodies {
		var err error
		tokens[i], err = vllmsim.ChatPrompt([]byte(b))
		require.NoError(t, err)
	}
	same := 0
	for tokens[0][same] == tokens[1][same] {
		same++
	}
	require.Greater(t, same, 100)
	for name, c := range map[string]struct{ counted, off float64 }{
		"by this tokenizer":    {1, 0},
		"by one that is finer": {1.3, markTokens * 1.3},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for i, b := range bodies {
				lines = append(lines, fmt.Sprintf(`{"timestamp":%d,"body":%s,"usage":{"prompt_tokens":%d}}`, i, b, int(c.counted*float64(len(tokens[i])))))
			}
			got := read(t, lines...)
			for i, r := range got.requests {
				require.Equal(t, int(c.counted*float64(len(tokens[i]))), r.prompt)
			}
			shared := inCommon(got.requests[0].hashes, got.requests[1].hashes) * got.block
			exact := c.counted * float64(same)
			require.LessOrEqual(t, float64(shared), exact)
			require.Greater(t, float64(shared), exact-c.off-float64(got.block))
		})
	}
	salted := strings.Replace(bodies[0], `"model"`, `"cache_salt":"mine","model"`, 1)
	got := read(t, `{"ts":1,"body":`+bodies[0]+`,"usage":{"prompt_tokens":200}}`, `{"ts":2,"body":`+salted+`,"usage":{"prompt_tokens":200}}`)
	require.Zero(t, inCommon(got.requests[0].hashes, got.requests[1].hashes), "caches are apart")
}

// The same two turns of a conversation, written down in all the ways that are known.
func TestFormatsOfRequests(t *testing.T) {
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	for name, lines := range map[string][]string{
		"with timestamps in seconds": {`{"timestamp":1764000000,"body":` + body(1) + `}`, `{"timestamp":1764000002.5,"body":` + body(2) + `}`},
		"in milliseconds":            {`{"timestamp":1764000000000,"body":` + body(1) + `}`, `{"timestamp":1764000002500,"body":` + body(2) + `}`},
		"in small seconds":           {`{"timestamp":0,"body":` + body(1) + `}`, `{"timestamp":2.5,"body":` + body(2) + `}`},
		"as text":                    {`{"timestamp":"2026-01-31T12:00:00Z","body":` + body(1) + `}`, `{"timestamp":"2026-01-31T13:00:02.5+01:00","body":` + body(2) + `}`},
		"out of order":               {`{"time":7.5,"body":` + body(2) + `}`, `{"time":5,"body":` + body(1) + `}`},
		"under request":              {`{"startTime":"2026-01-31 12:00:00.0","request":` + body(1) + `}`, `{"startTime":"2026-01-31 12:00:02.5","request":` + body(2) + `}`},
		"as a string":                {`{"ts":1,"request_body":` + quoted(body(1)) + `}`, `{"ts":3.5,"request_body":` + quoted(body(2)) + `}`},
		"of a proxy":                 {`{"ts":1,"request":{"method":"POST","path":"/v1/chat/completions","body":` + body(1) + `}}`, `{"ts":3.5,"request":{"body":` + body(2) + `}}`},
		"bare with a time": {strings.Replace(body(1), "{", `{"created":1764000000,`, 1),
			strings.Replace(body(2), "{", `{"created":1764000002.5,`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, lines...)
			require.Len(t, got.requests, 2)
			require.Zero(t, got.badLines, got.bad)
			a, b := got.requests[0], got.requests[1]
			require.Zero(t, a.at)
			require.InDelta(t, 2.5, b.at.Seconds(), 1e-6)
			require.Equal(t, 30, a.output)
			require.Equal(t, a.session, b.session)
			require.Greater(t, b.outline.previous, a.outline.previous)
			require.Equal(t, a.outline.head, b.outline.head)
			require.NotZero(t, a.outline.fixed[4096])
			shared := inCommon(a.hashes, b.hashes) * got.block
			require.Greater(t, shared, 1000, "the system text and the first question")
			require.Less(t, shared, a.prompt)
		})
	}
}

func TestUntimedRequests(t *testing.T) {
	batch := func(id int) string {
		return fmt.Sprintf(`{"custom_id":"r-%d","method":"POST","url":"/v1/chat/completions","body":%s}`, id, body(id))
	}
	for _, lines := range [][]string{{body(1), body(2), body(3)}, {batch(1), batch(2), batch(3)}} {
		got := read(t, lines...)
		require.Equal(t, 3, got.untimed)
		require.Zero(t, got.requests[0].at)
		require.Greater(t, got.requests[2].at, got.requests[1].at)
	}
}

func TestUsageOfALog(t *testing.T) {
	got := read(t, `{"timestamp":1,"body":`+body(1)+`,"response":{"status_code":200,"body":{"usage":{"prompt_tokens":2000,"completion_tokens":7}}}}`)
	require.Equal(t, 7, got.requests[0].output)
	require.InDelta(t, 2000, got.requests[0].prompt, 1)
	got = read(t, `{"id":"x","call_type":"acompletion","startTime":1764000000.1,"messages":[{"role":"user","content":"hi"}],`+
		`"model_parameters":{"max_tokens":9,"tools":[{"type":"function","function":{"name":"f"}}]},"prompt_tokens":80,"completion_tokens":5}`)
	require.Equal(t, 5, got.requests[0].output)
	require.Contains(t, string(got.requests[0].outline.body), `"tools"`)
	require.NotContains(t, string(got.requests[0].outline.body), "startTime")
}

func TestOtherAPIs(t *testing.T) {
	for text, path := range map[string]string{
		`{"url":"/v1/embeddings","body":{"model":"m","input":"hello"}}`:                                              "/embeddings",
		`{"body":{"model":"m","input":"hello"}}`:                                                                     "/responses",
		`{"body":{"model":"m","prompt":"hello"}}`:                                                                    "/completions",
		`{"path":"/v1/messages","body":{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hello"}]}}`: "/messages",
	} {
		got := read(t, text)
		to, sent, err := got.requests[0].outline.send("other", 3)
		require.NoError(t, err)
		require.Equal(t, path, to)
		require.Contains(t, string(sent), `"other"`)
		require.Equal(t, path != "/embeddings", strings.Contains(string(sent), `"stream":true`))
	}
}

// What cannot be read is counted and named, and the rest is replayed.
func TestBadLines(t *testing.T) {
	got := read(t, `{"timestamp":1,"body":`+body(1)+`}`, `{"timestamp":2,"body":`, ``, `{"timestamp":3}`,
		`{"timestamp":"noon","body":`+body(1)+`}`, `{"timestamp":5,"body":{"messages":7}}`, `{"timestamp":-5,"body":`+body(1)+`}`, `{"timestamp":6,"body":`+body(2)+`}`)
	require.Len(t, got.requests, 2)
	require.Equal(t, 5, got.badLines)
	var b bytes.Buffer
	got.complain(&b)
	require.Contains(t, b.String(), "5 lines of file are left out")
	require.Contains(t, b.String(), "line 2: ")
	require.Contains(t, b.String(), `line 5: "timestamp" is "noon"; want seconds`)
	require.Contains(t, b.String(), "and 2 more")
}

func TestUnreadableFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "no requests in it",
		"\n \n":               "no requests in it",
		"\n\n" + `{"a":1}`:    `line 3 is in no known format`,
		`{"a":1}`:             `line 1 is in no known format; want one JSON object a line`,
		"not json":            "none of 1 lines is a request, line 1: ",
		`[{"messages":[]}]`:   "no requests in it",
		`[1]`:                 `not an array of objects with messages in "traj"`,
		`{"input_length":-3}`: "none of 1 lines is a request, line 1: a length is negative",
	} {
		_, err := readTrace("file", strings.NewReader(text), testOptions)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "file: ")
	}
}

func TestSessions(t *testing.T) {
	session := func(name string) string {
		return `{"traj":[{"role":"system","content":"` + strings.Repeat("policy ", 200) + `"},{"role":"user","content":"` + name + `"},` +
			`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
			`{"role":"tool","tool_call_id":"1","content":"found"},{"role":"assistant","content":"done"}]}`
	}
	got := read(t, "["+session("a")+","+session("b")+","+session("c")+"]")
	require.Len(t, got.requests, 6)
	require.Len(t, got.opening(), 2, "two users")
	require.Equal(t, got.requests[1], got.requests[0].next)
	require.Equal(t, got.requests[4], got.requests[1].next, "the first user's second session")
	require.Equal(t, got.requests[0].session, got.requests[1].session)
	require.NotEqual(t, got.requests[0].session, got.requests[2].session)
	require.Positive(t, got.requests[1].outline.previous)
}

// A recording of the same requests gives the same simulation as the requests.
func TestAnonymized(t *testing.T) {
	dir := t.TempDir()
	log, out := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "out.jsonl")
	var b strings.Builder
	for i := range 200 {
		text := strings.Replace(body(i%4), "question", fmt.Sprint("secret", i/4), -1)
		fmt.Fprintf(&b, "{\"timestamp\":%d,\"body\":%s}\n", 1764000000+i*2, text)
	}
	require.NoError(t, os.WriteFile(log, []byte(b.String()), 0o600))
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-trace", log, "-anonymize", out}, &stdout, &stderr), stderr.String())
	require.Contains(t, stderr.String(), "200 requests")
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.NotContains(t, string(text), "secret")
	require.NotContains(t, string(text), "kind")

	args := []string{"-policies", "affinity,least-outstanding", "-clients", "2", "-seeds", "3"}
	fromLog := replayed(t, append(args, "-trace", log)...)
	fromRecording := replayed(t, append(args, "-trace", out)...)
	var a, c float64
	for i := range fromLog {
		require.Equal(t, fromLog[i].PromptTokens, fromRecording[i].PromptTokens)
		require.InDelta(t, fromLog[i].InfiniteHitRate, fromRecording[i].InfiniteHitRate, 1e-9)
		a, c = a+fromLog[i].HitRate, c+fromRecording[i].HitRate
	}
	require.InDelta(t, a, c, .05*a)

	require.Equal(t, program.Failed, run(context.Background(), []string{"-trace", log, "-anonymize", out}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "exists", "nothing is written over")
	require.Equal(t, program.Failed, run(context.Background(), []string{"-trace", "gen:chat", "-anonymize", out + "2"}, &stdout, &stderr))
}

func TestRecordingHasTimes(t *testing.T) {
	var b bytes.Buffer
	_, err := writeRecording(&b, read(t, `{"timestamp":1764000000,"body":`+body(1)+`}`, `{"timestamp":1764000002.5,"body":`+body(2)+`}`))
	require.NoError(t, err)
	var times []time.Time
	for r, err := range middleware.ReadRecords(bytes.NewReader(b.Bytes())) {
		require.NoError(t, err)
		times = append(times, r.Time)
	}
	require.Equal(t, []time.Time{time.Unix(1764000000, 0).UTC(), time.UnixMilli(1764000002500).UTC()}, times)
	got := read(t, strings.Split(strings.TrimSpace(b.String()), "\n")...)
	require.Len(t, got.requests, 2)
	require.Equal(t, got.requests[0].session, got.requests[1].session)
}

func FuzzReadTrace(f *testing.F) {
	f.Add(`{"timestamp":1,"body":` + body(1) + `}`)
	f.Add(`{"timestamp":"2026-01-31T12:00:00Z","request":"{\"prompt\":\"x\"}"}`)
	f.Add(`{"timestamp":0,"input_length":700,"output_length":3,"hash_ids":[1,2],"block_size":16}`)
	f.Add(`{"v":1,"time":"2026-01-31T12:00:00Z","api":"chat","head":"00000000000000aa","root":"00000000000000ab","boundaries":[{"hash":"00000000000000ab","bytes":40}],"outcome":"ok"}`)
	f.Add(`[{"traj":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := readTrace("file", strings.NewReader(text), testOptions)
		if err != nil {
			return
		}
		got.number()
		require.NotEmpty(t, got.requests)
		for _, r := range got.requests {
			require.GreaterOrEqual(t, r.at, time.Duration(0))
			require.Positive(t, r.prompt)
			require.Positive(t, r.output)
			require.LessOrEqual(t, len(r.hashes), r.prompt/got.block)
			got.routing(r, 4096)
		}
		require.LessOrEqual(t, got.infiniteHitRate(), 1.0)
	})
}
