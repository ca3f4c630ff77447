package canon_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prefixwise/prefixwise/canon"
)

func checkDivergence(t require.TestingT, api canon.API, a, b []byte) canon.Divergence {
	d := canon.Diff(api, a, b)
	require.GreaterOrEqual(t, d.Shared, 0)
	require.GreaterOrEqual(t, d.Lost, 0)
	require.GreaterOrEqual(t, d.Winnable, 0)
	require.LessOrEqual(t, d.Shared+d.Lost, min(d.SizeA, d.SizeB))
	require.LessOrEqual(t, d.Shared+d.Winnable, min(d.SizeA, d.SizeB))
	require.GreaterOrEqual(t, d.Offset, 0)
	for _, s := range []string{d.A, d.B, d.Sent.A, d.Sent.B} {
		require.True(t, utf8.ValidString(s))
		require.LessOrEqual(t, len(s), 300)
	}
	require.Less(t, len(d.String()), 10_000)
	return d
}

func FuzzDiff(f *testing.F) {
	f.Add(uint8(canon.Chat), []byte(request(toolA, policy, hello+","+call+","+result)), []byte(request(toolB, `"It is 14:05:09"`, hello+","+thinking)))
	f.Add(uint8(canon.Messages), []byte(`{"model":"m","system":"a","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`), []byte(`{"model":"m","messages":[]}`))
	f.Add(uint8(canon.Responses), []byte(`{"model":"m","input":[{"role":"user","content":"x"},{"type":"reasoning","summary":[]}]}`), []byte(`{"model":"m","input":"x"}`))
	f.Add(uint8(canon.Completions), []byte(`{"model":"m","prompt":[1,2]}`), []byte(`{"model":"m","prompt":[1,23]}`))
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":"low"},"uuid":"x"},{"type":"video_url","video_url":"v"},"s",7,{"type":"text","text":null},{"text":"t"}],"x":null,"name":null,"id":"i"},7]}`,
		`{"model":"m","documents":"d","add_special_tokens":true,"continue_final_message":true,"messages":[{"role":"assistant","content":null,"reasoning":null,"reasoning_content":"r","tool_calls":[{"index":0,"type":"x","function":7},7,{"function":{"name":"n","arguments":7}}],"function_call":null},{"content":{"a":1}}]}`,
		`{"model":"m","tools":{},"functions":[],"tool_choice":"auto","messages":[{"role":7,"type":"message","call_id":"c","tool_calls":7}]}`,
	} {
		for api := canon.Chat; api <= canon.Messages; api++ {
			f.Add(uint8(api), []byte(body), []byte(strings.Replace(body, "7", "8", 1)))
		}
	}
	f.Add(uint8(canon.Responses), []byte(`{"model":"m","instructions":"i","input":[{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"s"}],"content":[{"type":"reasoning_text","text":"t"}],"encrypted_content":null,"status":null},{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}],"output":[{"type":"output_text","text":"o"}]}]}`), []byte(`{}`))
	f.Add(uint8(canon.Chat), []byte(`{"tools":{"foo\u0000bar":42},"messages":[]}`), []byte(`{"tools":[{"\\":{"\u003c":"\n"}}],"messages":[]}`))
	for _, c := range keyedReports {
		f.Add(uint8(c.api), []byte(c.a), []byte(c.b))
	}
	f.Fuzz(func(t *testing.T, api uint8, a, b []byte) {
		before := bytes.Clone(a)
		d := checkDivergence(t, canon.API(api), a, b)
		require.Equal(t, before, a)
		if d.SameBytes {
			require.Equal(t, canon.Same, d.Change)
		}
		if r, err := canon.Canonicalize(canon.API(api), a); err == nil {
			o, err := newCanon(t, canon.Options{}).Outline(canon.API(api), a)
			require.NoError(t, err)
			require.Equal(t, r.Boundaries[len(r.Boundaries)-1].Offset, o.Size, "%s", r.Body)
			q, err := canon.Canonicalize(canon.API(api), b)
			require.NoError(t, err)
			if q.Diagnosis.Code == canon.OK && r.Diagnosis.Code == canon.OK {
				same := q.Boundaries[len(q.Boundaries)-1].Hash == r.Boundaries[len(r.Boundaries)-1].Hash
				require.Equal(t, same, d.Change == canon.Same, "%s\n%s\n%s", d, r.Body, q.Body)
			}
		}
		self := canon.Diff(canon.API(api), a, a)
		require.Equal(t, canon.Same, self.Change)
		require.Equal(t, canon.Same, self.Sent.Change)
	})
}

func FuzzLint(f *testing.F) {
	f.Add(uint8(canon.Chat), []byte(request(toolA, `"now 2026-03-01T14:05:09Z 1,2,3 left cch=a1b2c 1 May 2026"`, hello+","+call+","+result)))
	f.Add(uint8(canon.Messages), []byte(`{"model":"m","system":"x","messages":[{"role":"user","content":[{"type":"tool_result","content":"{\"a\":\"\\u003c\"}"}]}]}`))
	f.Fuzz(func(t *testing.T, api uint8, body []byte) {
		findings := canon.Lint(canon.API(api), body)
		require.LessOrEqual(t, len(findings), 100)
		for _, x := range findings {
			require.True(t, utf8.ValidString(x.Excerpt))
			require.GreaterOrEqual(t, x.Byte, 0)
			require.LessOrEqual(t, x.Byte, len(body))
			require.Less(t, len(x.String()), 5000)
		}
		last := 0
		for _, v := range canon.FindVolatile(body) {
			require.LessOrEqual(t, last, v.Start)
			require.Less(t, v.Start, v.End)
			last = v.End
		}
		require.LessOrEqual(t, last, len(body))
	})
}

// Diff agrees with the hashes: two requests are the same to it exactly when
// their last boundaries are.
func TestDiffAgreesWithTheBoundaries(t *testing.T) {
	c := newCanon(t, canon.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		api := rapid.SampledFrom(apis).Draw(rt, "api")
		generate := func() *tree { return otherRequest(rt, api) }
		again := func(v *tree) string { return spell(rt, respellOther(rt, v, api, canon.Stable)) }
		if api == canon.Chat {
			generate = func() *tree { return chat(rt) }
			again = func(v *tree) string { return spell(rt, respell(rt, v, canon.Stable)) }
		}
		a := generate()
		b := a
		if maybe(rt) {
			b = generate()
		}
		x, y := []byte(again(a)), []byte(again(b))
		d := checkDivergence(rt, api, x, y)
		p, err := c.Canonicalize(api, x)
		require.NoError(rt, err)
		q, err := c.Canonicalize(api, y)
		require.NoError(rt, err)
		same := p.Boundaries[len(p.Boundaries)-1].Hash == q.Boundaries[len(q.Boundaries)-1].Hash
		require.Equal(rt, same, d.Change == canon.Same, "%s", d)
	})
}

// Work grows with the size of the input and not faster: ten times the input
// may take no more than ten times the allocations and a few.
func TestDiagnosisIsLinear(t *testing.T) {
	body := func(n int) []byte {
		tools := strings.TrimSuffix(strings.Repeat(toolA+","+toolB+",", n), ",")
		system := quoted(strings.Repeat("1,2 left now 14:05 2026-03-01 cch=a1b2c \\u003c ", n))
		return []byte(request(tools, system, strings.TrimSuffix(strings.Repeat(hello+","+call+","+result+",", n), ",")))
	}
	cost := func(n int) float64 {
		a := body(n)
		b := bytes.Replace(a, []byte("You"), []byte("Yau"), 1)
		b = bytes.Replace(b, []byte("hello"), []byte("hallo"), 1)
		return testing.AllocsPerRun(1, func() {
			canon.Diff(canon.Chat, a, b)
			canon.Lint(canon.Chat, a)
		})
	}
	small, large := cost(20), cost(400)
	require.Less(t, large, 30*small)
}
