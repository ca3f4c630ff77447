//go:build vllm

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// history is an agent's request whose tools, keywords and results stand in
// canonical order. It has two tools, a parallel batch of two calls, and long text
// before and after, so that a divergence anywhere costs many blocks.
const history = `{"model":"tiny",` +
	`"tools":[{"type":"function","function":{"name":"get_weather","description":"Weather of a city","parameters":{"description":"where and when","properties":{"city":{"description":"its name","type":"string"},"days":{"type":"integer"}},"required":["city","days"],"type":"object"}}},` +
	`{"type":"function","function":{"name":"search","description":"Searches documents","parameters":{"properties":{"query":{"type":"string"}},"required":["query"],"type":"object"}}}],` +
	`"messages":[{"role":"system","content":"MARK You are an agent for weather questions."},` +
	`{"role":"user","content":"LONG What will the weather be?"},` +
	`{"role":"assistant","content":"I look.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\",\"days\":2}"}},{"id":"call_2","type":"function","function":{"name":"search","arguments":"{\"query\":\"rain\"}"}}]},` +
	`{"role":"tool","content":"Paris: <b>21</b> degrees","tool_call_id":"call_1"},` +
	`{"role":"tool","content":"found: 3 documents","tool_call_id":"call_2"},` +
	`{"role":"assistant","content":"It will be warm."},` +
	`{"role":"user","content":"LONG And in Rome?"}],` +
	`"max_tokens":1,"temperature":0}`

// respelling is another way to write history.
type respelling struct {
	name string
	make func(t *testing.T, body string) string
	// neutral: the engine sees the same tokens without our doing.
	neutral bool
}

// swap replaces each old by its new one, and insists that all are there.
func swap(pairs ...string) func(*testing.T, string) string {
	return func(t *testing.T, body string) string {
		for i := 0; i < len(pairs); i += 2 {
			require.Contains(t, body, pairs[i])
			body = strings.ReplaceAll(body, pairs[i], pairs[i+1])
		}
		return body
	}
}

// exchange lets two adjoining pieces change places.
func exchange(first, between, second string) func(*testing.T, string) string {
	return swap(first+between+second, second+between+first)
}

const (
	weatherTool   = `{"type":"function","function":{"name":"get_weather","description":"Weather of a city","parameters":{"description":"where and when","properties":{"city":{"description":"its name","type":"string"},"days":{"type":"integer"}},"required":["city","days"],"type":"object"}}}`
	searchTool    = `{"type":"function","function":{"name":"search","description":"Searches documents","parameters":{"properties":{"query":{"type":"string"}},"required":["query"],"type":"object"}}}`
	weatherResult = `{"role":"tool","content":"Paris: <b>21</b> degrees","tool_call_id":"call_1"}`
	searchResult  = `{"role":"tool","content":"found: 3 documents","tool_call_id":"call_2"}`
)

var respellings = []respelling{
	{"whitespace between members", func(t *testing.T, body string) string {
		var out bytes.Buffer
		require.NoError(t, json.Indent(&out, []byte(body), "", "   "))
		return out.String()
	}, true},
	{"string escapes", swap("weather", `\u0077eather`, "<b>", `\u003cb\u003e`), true},
	{"order of root members", func(t *testing.T, body string) string {
		return regexp.MustCompile(`^(\{)("model":"tiny",)(.*)("max_tokens":1,"temperature":0)\}$`).ReplaceAllString(body, `$1$4,$3${2}"seed":1}`)
	}, true},
	{"order of message members", swap(weatherResult, `{"tool_call_id":"call_1","content":"Paris: <b>21</b> degrees","role":"tool"}`), true},
	{"order of tool members", swap(searchTool, `{"function":{"parameters":{"properties":{"query":{"type":"string"}},"required":["query"],"type":"object"},"description":"Searches documents","name":"search"},"type":"function"}`), true},
	{"single text part", swap(`"content":"It will be warm."`, `"content":[{"type":"text","text":"It will be warm."}]`,
		`"content":"found: 3 documents"`, `"content":[{"text":"found: 3 documents","type":"text"}]`), true},
	{"cache markers", swap(`"content":"It will be warm."`, `"content":[{"type":"text","text":"It will be warm.","cache_control":{"type":"ephemeral"}}]`), true},
	{"null optionals, empty tool_calls", swap(`"content":"It will be warm."`, `"content":"It will be warm.","tool_calls":[],"refusal":null,"audio":null,"function_call":null`), true},
	{"order of tools", exchange(weatherTool, ",", searchTool), false},
	{"order of schema keywords", swap(`{"description":"its name","type":"string"}`, `{"type":"string","description":"its name"}`,
		`"required":["query"],"type":"object"`, `"type":"object","required":["query"]`), false},
	{"order of required", swap(`["city","days"]`, `["days","city"]`), false},
	{"parallel results swapped", exchange(weatherResult, ",", searchResult), false},
	{"all of it", func(t *testing.T, body string) string {
		body = exchange(weatherResult, ",", searchResult)(t, body)
		body = exchange(weatherTool, ",", searchTool)(t, body)
		body = swap(`["city","days"]`, `["days","city"]`, "weather", `\u0077eather`, `"content":"It will be warm."`, `"content":[{"type":"text","text":"It will be warm."}]`)(t, body)
		var out bytes.Buffer
		require.NoError(t, json.Indent(&out, []byte(body), "", "\t"))
		return out.String()
	}, false},
	// What canon leaves alone, and the engine does not see either: it parses
	// the arguments of calls.
	{"whitespace and escapes in arguments", swap(`{\"city\":\"Paris\",\"days\":2}`, `{ \"city\": \"\\u0050aris\", \"days\":2 }`), true},
}

func marked(body string) string {
	long := strings.Repeat("Notes taken on the way, of which there are many. ", 20)
	return strings.NewReplacer("MARK ", fresh(), "LONG ", long).Replace(body)
}

func stable(t *testing.T, body string) string {
	r, err := canon.Canonicalize(canon.Chat, []byte(body))
	require.NoError(t, err)
	require.Equal(t, canon.OK, r.Diagnosis.Code, "%s", r.Diagnosis)
	return string(r.Body)
}

// ids are the tokens that the engine makes of a request.
func (e endpoint) ids(t *testing.T, body string) []any {
	a := e.post(t, "/v1/chat/completions", []byte(strings.Replace(body, "{", `{"return_token_ids":true,`, 1)))
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	return a.list(t, "prompt_token_ids")
}

func (e endpoint) cached(t *testing.T, body string) (prompt, cached int) {
	a := e.post(t, "/v1/chat/completions", []byte(body))
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	return a.number(t, "usage.prompt_tokens"), a.number(t, "usage.prompt_tokens_details.cached_tokens")
}

// TestCanonIsWhatTheEngineSees: a respelling that Stable calls neutral gives the
// engine the same tokens as before, and all respellings of one request come to
// the same tokens.
func TestCanonIsWhatTheEngineSees(t *testing.T) {
	e := engines(t)[0]
	body := marked(history)
	tokens := e.ids(t, body)
	require.Equal(t, tokens, e.ids(t, stable(t, body)), "history is not in canonical order")
	for _, r := range respellings {
		t.Run(r.name, func(t *testing.T) {
			other := r.make(t, body)
			before, after := e.ids(t, other), e.ids(t, stable(t, other))
			if r.neutral {
				assert.Equal(t, tokens, before, "the engine tells this respelling apart by itself")
			} else {
				assert.NotEqual(t, tokens, before, "the engine does not tell this respelling apart")
			}
			assert.Equal(t, tokens, after)
		})
	}
	t.Run("reasoning_content", func(t *testing.T) {
		with := func(name string) string {
			return swap(`"content":"It will be warm."`, `"content":"It will be warm.","`+name+`":"thought"`)(t, body)
		}
		c, err := canon.New(canon.Options{ReasoningName: "reasoning"})
		require.NoError(t, err)
		r, err := c.Canonicalize(canon.Chat, []byte(with("reasoning_content")))
		require.NoError(t, err)
		assert.NotContains(t, string(r.Body), "reasoning_content")
		assert.Equal(t, e.ids(t, with("reasoning")), e.ids(t, string(r.Body)))
		assert.NotEqual(t, tokens, e.ids(t, string(r.Body)), "the reasoning is in the prompt")
	})
}

// TestCanonMakesTheCacheHit sends history, then a respelling of it, as they are
// and canonicalized.
func TestCanonMakesTheCacheHit(t *testing.T) {
	e := engines(t)[0]
	type row struct {
		Respelling string `json:"respelling"`
		Prompt     int    `json:"prompt_tokens"`
		Without    int    `json:"cached_without"`
		With       int    `json:"cached_with"`
	}
	var rows []row
	for _, r := range respellings {
		t.Run(r.name, func(t *testing.T) {
			one := marked(history)
			e.cached(t, one)
			n, without := e.cached(t, r.make(t, one))
			two := marked(history)
			e.cached(t, stable(t, two))
			m, with := e.cached(t, stable(t, r.make(t, two)))
			rows = append(rows, row{r.name, n, without, with})
			whole := (m - 1) / e.block * e.block
			assert.Equal(t, whole, with, "canonicalized, all but the last block hits")
			if r.neutral {
				assert.Equal(t, whole, without)
			} else {
				assert.Less(t, without, whole-2*e.block, "without canonicalization it misses")
			}
		})
	}
	for _, r := range rows {
		t.Logf("%-40s %5d prompt, cached %5d without, %5d with", r.Respelling, r.Prompt, r.Without, r.With)
	}
	record(t, "canon.json", rows)
}

// record keeps what a test measured, when the environment asks for it.
func record(t *testing.T, name string, rows any) {
	dir := os.Getenv("PREFIXWISE_E2E_RECORD")
	if dir == "" {
		return
	}
	text, err := json.Marshal(rows)
	require.NoError(t, err)
	// One row a line.
	lines := strings.ReplaceAll(string(text), "},{", "},\n{")
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(fmt.Sprintln(lines)), 0o644))
}
