package canon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

func newCanon(t testing.TB, o canon.Options) *canon.Canonicalizer {
	t.Helper()
	c, err := canon.New(o)
	require.NoError(t, err)
	return c
}

func run(t testing.TB, api canon.API, level canon.Level, body string) canon.Result {
	t.Helper()
	r, err := newCanon(t, canon.Options{Level: level}).Canonicalize(api, []byte(body))
	require.NoError(t, err)
	return r
}

func TestGuardLeavesFaultyBodiesUntouched(t *testing.T) {
	deep := func(n int) string { // n levels, the root among them
		return `{"x":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
	}
	for _, c := range []struct {
		body string
		want canon.Code
		path string
	}{
		{``, canon.NotJSON, ""},
		{` `, canon.NotJSON, ""},
		{`[]`, canon.NotObject, ""},
		{`"x"`, canon.NotObject, ""},
		{`null`, canon.NotObject, ""},
		{`{} {}`, canon.TrailingData, ""},
		{`{}x`, canon.TrailingData, ""},
		{`{"a":1,"a":1}`, canon.DuplicateName, "a"},
		{`{"a":1,"\u0061":1}`, canon.DuplicateName, "a"},
		{`{"messages":[{"role":"user"},{"x":{"y":1,"y":2}}]}`, canon.DuplicateName, "messages[1].x.y"},
		{`{"a":"\ud800"}`, canon.LoneSurrogate, "a"},
		{`{"a":"\udc00\ud800"}`, canon.LoneSurrogate, "a"},
		{`{"a":"\ud800\u0041"}`, canon.LoneSurrogate, "a"},
		{`{"\ud800":1}`, canon.LoneSurrogate, ""},
		{"{\"a\":[1,\"\xff\"]}", canon.InvalidUTF8, "a[1]"},
		{"{\"a\":\"\xed\xa0\x80\"}", canon.InvalidUTF8, "a"},
		{"\xef\xbb\xbf{}", canon.NotJSON, ""},
		{`{"a":01}`, canon.NotJSON, "a"},
		{`{"a":tru}`, canon.NotJSON, "a"},
		{`{"a":"` + "\t" + `"}`, canon.NotJSON, "a"},
		{`{"a":1,}`, canon.NotJSON, ""},
		{deep(128), canon.OK, ""},
		{deep(129), canon.TooDeep, ""},
		{`{"messages":"hi"}`, canon.WrongShape, "messages"},
		{`{"messages":null}`, canon.WrongShape, "messages"},
		{`{"model":7}`, canon.WrongShape, "model"},
	} {
		for _, level := range []canon.Level{canon.Wire, canon.Stable, canon.Strong} {
			r := run(t, canon.Chat, level, c.body)
			require.Equal(t, c.want, r.Diagnosis.Code, "%.80s: %s", c.body, r.Diagnosis)
			if c.want == canon.OK {
				continue
			}
			if c.path != "" {
				require.Equal(t, c.path, r.Diagnosis.Path, "%.80s", c.body)
			}
			require.Equal(t, c.body, string(r.Body))
			require.Len(t, r.Boundaries, 1)
			require.Equal(t, canon.Raw, r.Boundaries[0].Kind)
			require.Equal(t, r.Root, r.Head)
			require.NotEqual(t, r.Root, run(t, canon.Chat, level, c.body+" ").Root, "the raw bytes are the key")
		}
	}
}

func TestGuardStillReadsTheModel(t *testing.T) {
	r := run(t, canon.Chat, canon.Stable, `{"model":"a","x":"\ud800","model":"b","stream":true}`)
	require.Equal(t, canon.LoneSurrogate, r.Diagnosis.Code)
	require.Equal(t, "b", r.Model)
	require.True(t, r.Stream)
}

func TestUnknownAPIIsUntouched(t *testing.T) {
	r := run(t, canon.Unknown, canon.Stable, `{"b": 1}`)
	require.Equal(t, canon.UnknownAPI, r.Diagnosis.Code)
	require.Equal(t, `{"b": 1}`, string(r.Body))
}

func TestSizeLimitIsTyped(t *testing.T) {
	c := newCanon(t, canon.Options{MaxBytes: 10})
	_, err := c.Canonicalize(canon.Chat, []byte(`{"a":"12345"}`))
	require.ErrorIs(t, err, canon.ErrTooLarge)
	var size *canon.SizeError
	require.ErrorAs(t, err, &size)
	require.Equal(t, canon.SizeError{Size: 13, Max: 10}, *size)
	_, err = c.Canonicalize(canon.Chat, []byte(`{"a":"12"}`))
	require.NoError(t, err)
}

func TestNewRefusesWrongOptions(t *testing.T) {
	for _, o := range []canon.Options{{MaxBytes: -1}, {Level: 9}, {ReasoningName: "thoughts"}} {
		_, err := canon.New(o)
		require.Error(t, err)
	}
}

// dataFile finds a file of the shared corpora, or skips the test.
func dataFile(t testing.TB, path ...string) string {
	t.Helper()
	root := os.Getenv("PREFIXWISE_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "data")
	}
	full := filepath.Join(append([]string{root}, path...)...)
	if _, err := os.Stat(full); err != nil {
		t.Skipf("no corpus at %s; set PREFIXWISE_DATA", full)
	}
	return full
}

func TestJSONTestSuite(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(dataFile(t, "json", "JSONTestSuite", "test_parsing"), "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	canonical := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		name := filepath.Base(file)
		embedded := `{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"p":{"default": ` + string(text) + `}}}}}],"messages":[]}`
		for _, body := range []string{string(text), embedded} {
			for _, level := range []canon.Level{canon.Wire, canon.Stable, canon.Strong} {
				r := run(t, canon.Chat, level, body)
				alone := body != embedded
				switch {
				case strings.HasPrefix(name, "n_"):
					if !alone && r.Diagnosis.Code == canon.OK {
						// Some texts that are no document are harmless inside one.
						_, err := decode([]byte(body))
						require.NoError(t, err, name)
						continue
					}
					require.NotEqual(t, canon.OK, r.Diagnosis.Code, name)
					require.Equal(t, body, string(r.Body), name)
				case r.Diagnosis.Code == canon.OK:
					canonical++
					require.Equal(t, mustDecode(t, []byte(body)).sorted().String(), mustDecode(t, r.Body).sorted().String(), name)
				case strings.HasPrefix(name, "y_"):
					legal := strings.Contains(name, "duplicated_key") || alone && strings.TrimSpace(body)[0] != '{'
					require.True(t, legal, "%s: %s", name, r.Diagnosis)
					require.Equal(t, body, string(r.Body), name)
				default:
					require.Equal(t, body, string(r.Body), name)
				}
			}
		}
		arguments := map[string]string{"arguments": strings.ToValidUTF8(string(text), "?")}
		body := `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":` +
			quote(arguments["arguments"]) + `}}]}]}`
		r := run(t, canon.Chat, canon.Stable, body)
		require.Equal(t, canon.OK, r.Diagnosis.Code, "%s: %s", name, r.Diagnosis)
		got := mustDecode(t, r.Body).at("messages", 0, "tool_calls", 0, "function", "arguments")
		require.Equal(t, arguments["arguments"], got.text, name)
	}
	t.Logf("%d files, %d canonicalized bodies", len(files), canonical)
}
