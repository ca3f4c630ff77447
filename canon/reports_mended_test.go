package canon_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// Spellings of one request, as reports describe them. From the level on that is
// given they become one canonical form, and below it they do not.
var reports = []struct {
	name      string
	api       canon.API
	level     canon.Level // the lowest that mends it; the zero value is Stable
	spellings []string
}{
	{"01 06 07 08 09 10 12 13 14 tools in the order of a map", canon.Chat, canon.Stable, withTools(
		tools("b", "a"), tools("a", "b"))},
	{"02 05 a map of tools ranged again each turn", canon.Chat, canon.Stable, withTools(
		tools("read", "write", "exec"), tools("exec", "read", "write"), tools("write", "exec", "read"))},
	{"03 maps of tools and of properties", canon.Chat, canon.Strong, withTools(
		tools("a")+","+propertiesTool(`"x":{"type":"string"},"y":{"type":"number"}`),
		propertiesTool(`"y":{"type":"number"},"x":{"type":"string"}`)+","+tools("a"))},
	{"04 22 maps of tools and of schema keywords", canon.Chat, canon.Stable, withTools(
		tools("a")+`,{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"p":{"type":"string","description":"d"}},"required":["p"]}}}`,
		`{"type":"function","function":{"name":"f","parameters":{"required":["p"],"properties":{"p":{"description":"d","type":"string"}},"type":"object"}}},`+tools("a"))},
	{"11 65 tools in four orders", canon.Chat, canon.Stable, fourOrders(65)},
	{"15 two tools swapped", canon.Chat, canon.Stable, withTools(
		tools("HassTurnOn", "HassTurnOff", "GetLiveContext"), tools("HassTurnOff", "HassTurnOn", "GetLiveContext"))},
	{"16 tools shuffled between turns", canon.Chat, canon.Stable, withTools(
		tools("terminal", "browser", "memory"), tools("memory", "terminal", "browser"))},
	{"46 one choice of tools, ordered by relevance", canon.Chat, canon.Stable, withTools(
		tools("lights", "climate"), tools("climate", "lights"))},
	{"01 tools of Responses in the order of a map", canon.Responses, canon.Stable, []string{
		`{"model":"m","tools":[{"type":"web_search"},{"type":"function","name":"b"},{"type":"function","name":"a"}],"input":"hi"}`,
		`{"model":"m","tools":[{"type":"function","name":"a"},{"type":"function","name":"b"},{"type":"web_search"}],"input":"hi"}`}},
	{"tools of Messages in the order of a map", canon.Messages, canon.Stable, []string{
		`{"model":"m","tools":[{"name":"b","input_schema":{"type":"object","required":["y","x"]}},{"name":"a","input_schema":{}}],"messages":[]}`,
		`{"model":"m","tools":[{"name":"a","input_schema":{}},{"input_schema":{"required":["x","y"],"type":"object"},"name":"b"}],"messages":[]}`}},
	{"18 20 extra fields in random order", canon.Chat, canon.Wire, []string{
		`{"model":"m","messages":[],"top_k":1,"min_p":0.1,"chat_template_kwargs":{"a":1}}`,
		`{"min_p":0.1,"chat_template_kwargs":{"a":1},"top_k":1,"model":"m","messages":[]}`}},
	{"19 properties in the order of a map", canon.Chat, canon.Strong, withTools(
		propertiesTool(`"path":{"type":"string"},"content":{"type":"object","properties":{"z":{},"a":{}}}`),
		propertiesTool(`"content":{"type":"object","properties":{"a":{},"z":{}}},"path":{"type":"string"}`))},
	{"23 properties and required swapped", canon.Chat, canon.Stable, withTools(
		`{"type":"function","function":{"name":"f","parameters":{"properties":{"x":{},"y":{}},"required":["x","y"]}}}`,
		`{"type":"function","function":{"name":"f","parameters":{"required":["x","y"],"properties":{"x":{},"y":{}}}}}`)},
	{"25 a server's schemas and required names flip", canon.Chat, canon.Stable, withTools(
		tools("a")+`,{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"x":{"title":"X","type":"string"}},"required":["x","y"]}}}`,
		`{"function":{"parameters":{"required":["y","x"],"type":"object","properties":{"x":{"type":"string","title":"X"}}},"description":"d","name":"f"},"type":"function"},`+tools("a"))},
	{"26 keywords and sets sorted, unions not", canon.Chat, canon.Stable, withTools(
		`{"type":"function","function":{"name":"f","parameters":{"anyOf":[{"required":["b","a"],"type":"object"},{"type":"null"}],"type":"object"}}}`,
		`{"type":"function","function":{"name":"f","parameters":{"type":"object","anyOf":[{"type":"object","required":["a","b"]},{"type":"null"}]}}}`)},
	{"28 HTML escapes of encoding/json", canon.Chat, canon.Wire, []string{
		`{"messages":[{"role":"user","content":"a \u003c b \u0026\u0026 c\u2028"}]}`,
		`{"messages":[{"role":"user","content":"a < b && c` + "\u2028" + `"}]}`}},
	{"ASCII escapes of Python's json (ensure_ascii)", canon.Chat, canon.Wire, []string{
		`{"messages": [{"role": "user", "content": "\u65e5\u672c \ud83d\ude00 \/"}]}`,
		`{"messages":[{"role":"user","content":"日本 😀 /"}]}`}},
	{"36 37 parallel results in completion order", canon.Chat, canon.Stable, []string{
		batch("3", "1", "2"), batch("1", "2", "3"), batch("2", "3", "1")}},
	{"38 one pair of results swapped", canon.Chat, canon.Stable, []string{batch("1", "3", "2"), batch("1", "2", "3")}},
	{"36 parallel results of Responses", canon.Responses, canon.Stable, []string{
		`{"input":[{"type":"function_call","call_id":"1"},{"type":"function_call","call_id":"2"},{"type":"function_call_output","call_id":"2","output":"b"},{"type":"function_call_output","call_id":"1","output":"a"}]}`,
		`{"input":[{"type":"function_call","call_id":"1"},{"type":"function_call","call_id":"2"},{"type":"function_call_output","call_id":"1","output":"a"},{"type":"function_call_output","call_id":"2","output":"b"}]}`}},
	{"36 parallel results of Messages", canon.Messages, canon.Stable, []string{
		`{"messages":[{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"tool_use","id":"2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":"b"},{"type":"tool_result","tool_use_id":"1","content":"a"},{"type":"text","text":"and?"}]}]}`,
		`{"messages":[{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"tool_use","id":"2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"a"},{"type":"tool_result","tool_use_id":"2","content":"b"},{"type":"text","text":"and?"}]}]}`}},
	{"53 rolling cache_control breakpoints", canon.Chat, canon.Stable, []string{
		`{"messages":[{"role":"system","content":[{"type":"text","text":"s"}]},{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]}]}`,
		`{"messages":[{"role":"system","content":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b","prompt_cache_breakpoint":true}]}]}`}},
	{"53 rolling cache_control in Messages", canon.Messages, canon.Stable, []string{
		`{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"f","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`,
		`{"system":"s","tools":[{"name":"f"}],"messages":[{"role":"user","content":"a","cache_control":null}]}`}},
	{"54 content as string and as one part", canon.Chat, canon.Stable, []string{
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"text":"yes","type":"text"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":"yes"}]}`}},
	{"null and absent optionals", canon.Chat, canon.Stable, []string{
		`{"tools":null,"reasoning_effort":null,"messages":[{"role":"assistant","content":"x","tool_calls":[],"refusal":null,"audio":null,"function_call":null,"name":null}]}`,
		`{"messages":[{"role":"assistant","content":"x"}]}`}},
}

// tools spells tools of those names.
func tools(names ...string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","function":{"name":%q}}`, name)
	}
	return b.String()
}

func propertiesTool(properties string) string {
	return `{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{` + properties + `}}}}`
}

// withTools spells a request with each of the lists of tools.
func withTools(lists ...string) []string {
	var all []string
	for _, l := range lists {
		all = append(all, request(l, policy, hello))
	}
	return all
}

// fourOrders spells a request with n tools: as registered, backwards, turned by
// a third, and every seventh first.
func fourOrders(n int) []string {
	var orders [4][]string
	for i := range n {
		for k, at := range []int{i, n - 1 - i, (i + n/3) % n, i * 7 % n} {
			orders[k] = append(orders[k], fmt.Sprintf("tool_%d", at))
		}
	}
	return withTools(tools(orders[0]...), tools(orders[1]...), tools(orders[2]...), tools(orders[3]...))
}

// batch spells a turn with three calls whose results come in that order.
func batch(ids ...string) string {
	results := ""
	for _, id := range ids {
		results += `{"role":"tool","tool_call_id":"` + id + `","content":"result of ` + id + `"},`
	}
	return `{"messages":[{"role":"assistant","tool_calls":[{"id":"1"},{"id":"2"},{"id":"3"}]},` + results + `{"role":"user","content":"go on"}]}`
}

func TestReportsMended(t *testing.T) {
	place := map[canon.Level]int{canon.Wire: 0, canon.Stable: 1, canon.Strong: 2}
	for _, c := range reports {
		t.Run(c.name, func(t *testing.T) {
			for _, level := range levels {
				first := run(t, c.api, level, c.spellings[0])
				require.Equal(t, canon.OK, first.Diagnosis.Code, first.Diagnosis)
				for _, s := range c.spellings[1:] {
					require.NotEqual(t, c.spellings[0], s)
					next := run(t, c.api, level, s)
					if place[level] < place[c.level] {
						require.NotEqual(t, string(first.Body), string(next.Body), level)
						continue
					}
					require.Equal(t, string(first.Body), string(next.Body), level)
					require.Equal(t, first.Boundaries, next.Boundaries)
					require.Equal(t, first.Root, next.Root)
				}
			}
		})
	}
}

const reasoningNames = "50 reasoning under the name that the engine reads"

// Some vLLM versions read reasoning alone, so that reasoning_content is lost on
// the way; it is renamed when that is asked for, and where nothing is in its way.
func TestReportReasoningNames(t *testing.T) {
	t.Run(reasoningNames, func(t *testing.T) {
		c := newCanon(t, canon.Options{ReasoningName: "reasoning"})
		renamed, err := c.Canonicalize(canon.Chat, []byte(`{"messages":[{"role":"assistant","content":"x","reasoning_content":"why"}]}`))
		require.NoError(t, err)
		require.JSONEq(t, `{"messages":[{"role":"assistant","content":"x","reasoning":"why"}]}`, string(renamed.Body))
		for _, keep := range []string{
			`{"messages":[{"content":"x","role":"user","reasoning_content":"why"}]}`,
			`{"messages":[{"content":"x","reasoning":"a","reasoning_content":"b","role":"assistant"}]}`,
		} {
			r, err := c.Canonicalize(canon.Chat, []byte(keep))
			require.NoError(t, err)
			require.JSONEq(t, keep, string(r.Body))
		}
	})
}
