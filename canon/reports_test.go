package canon_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// Each case is a public report of a cache lost to spelling, reduced to two
// spellings of one request. They must become one canonical form at Stable and,
// where wire is set, at Wire as well; and there must have been a difference.
var reports = []struct {
	name string
	api  canon.API
	wire bool
	a, b string
}{
	{
		name: "tools out of a map (codex#2610, goclaw#718, bifrost#2347, docker-agent#3233, ai-sdk-go#157, thane#804, term-llm#113, ggcode#2445, trpc-mcp-go#109, zeroclaw#10959, deepagents#2497, coday#1322, hass_local_openai_llm#119, hermes-agent#27339)",
		api:  canon.Chat,
		a:    `{"model":"m","tools":[{"type":"function","function":{"name":"b"}},{"type":"function","function":{"name":"a"}}],"messages":[]}`,
		b:    `{"model":"m","tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}],"messages":[]}`,
	},
	{
		name: "tools of Responses out of a map (codex#2610)",
		api:  canon.Responses,
		a:    `{"model":"m","tools":[{"type":"web_search"},{"type":"function","name":"b"},{"type":"function","name":"a"}],"input":"hi"}`,
		b:    `{"model":"m","tools":[{"type":"function","name":"a"},{"type":"function","name":"b"},{"type":"web_search"}],"input":"hi"}`,
	},
	{
		name: "tools of Messages out of a map",
		api:  canon.Messages,
		a:    `{"model":"m","tools":[{"name":"b","input_schema":{"type":"object","required":["y","x"]}},{"name":"a","input_schema":{}}],"messages":[]}`,
		b:    `{"model":"m","tools":[{"name":"a","input_schema":{}},{"input_schema":{"required":["x","y"],"type":"object"},"name":"b"}],"messages":[]}`,
	},
	{
		name: "schema keywords out of a map (bifrost#3362, FlowDown#273, DeepSeek-Reasonix#2189)",
		api:  canon.Chat,
		a:    `{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"p":{"type":"string","description":"d"}},"required":["p"]}}}],"messages":[]}`,
		b:    `{"tools":[{"type":"function","function":{"name":"f","parameters":{"required":["p"],"properties":{"p":{"description":"d","type":"string"}},"type":"object"}}}],"messages":[]}`,
	},
	{
		name: "properties and required swapped (sglang#34553), required reordered (logfire#1930)",
		api:  canon.Chat,
		a:    `{"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"x":{},"y":{}},"required":["x","y"]}}}],"messages":[]}`,
		b:    `{"tools":[{"type":"function","function":{"name":"f","parameters":{"required":["y","x"],"properties":{"x":{},"y":{}}}}}],"messages":[]}`,
	},
	{
		name: "extra fields in random order (openai-go#901, bifrost#1742)", wire: true,
		api: canon.Chat,
		a:   `{"model":"m","messages":[],"top_k":1,"min_p":0.1,"chat_template_kwargs":{"a":1}}`,
		b:   `{"min_p":0.1,"chat_template_kwargs":{"a":1},"top_k":1,"model":"m","messages":[]}`,
	},
	{
		name: "HTML escapes of encoding/json (openai-go#467)", wire: true,
		api: canon.Chat,
		a:   `{"messages":[{"role":"user","content":"a \u003c b \u0026\u0026 c\u2028"}]}`,
		b:   `{"messages":[{"role":"user","content":"a < b && c` + "\u2028" + `"}]}`,
	},
	{
		name: "ASCII escapes of Python's json (ensure_ascii)", wire: true,
		api: canon.Chat,
		a:   `{"messages": [{"role": "user", "content": "\u65e5\u672c \ud83d\ude00 \/"}]}`,
		b:   `{"messages":[{"role":"user","content":"日本 😀 /"}]}`,
	},
	{
		name: "parallel results in completion order (vercel/ai#16567, harness-sdk#2112, open-swe#2198)",
		api:  canon.Chat,
		a:    `{"messages":[{"role":"assistant","tool_calls":[{"id":"1"},{"id":"2"},{"id":"3"}]},{"role":"tool","tool_call_id":"3","content":"c"},{"role":"tool","tool_call_id":"1","content":"a"},{"role":"tool","tool_call_id":"2","content":"b"},{"role":"user","content":"go on"}]}`,
		b:    `{"messages":[{"role":"assistant","tool_calls":[{"id":"1"},{"id":"2"},{"id":"3"}]},{"role":"tool","tool_call_id":"1","content":"a"},{"role":"tool","tool_call_id":"2","content":"b"},{"role":"tool","tool_call_id":"3","content":"c"},{"role":"user","content":"go on"}]}`,
	},
	{
		name: "parallel results of Responses",
		api:  canon.Responses,
		a:    `{"input":[{"type":"function_call","call_id":"1"},{"type":"function_call","call_id":"2"},{"type":"function_call_output","call_id":"2","output":"b"},{"type":"function_call_output","call_id":"1","output":"a"}]}`,
		b:    `{"input":[{"type":"function_call","call_id":"1"},{"type":"function_call","call_id":"2"},{"type":"function_call_output","call_id":"1","output":"a"},{"type":"function_call_output","call_id":"2","output":"b"}]}`,
	},
	{
		name: "parallel results of Messages",
		api:  canon.Messages,
		a:    `{"messages":[{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"tool_use","id":"2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":"b"},{"type":"tool_result","tool_use_id":"1","content":"a"},{"type":"text","text":"and?"}]}]}`,
		b:    `{"messages":[{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"tool_use","id":"2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"a"},{"type":"tool_result","tool_use_id":"2","content":"b"},{"type":"text","text":"and?"}]}]}`,
	},
	{
		name: "rolling cache_control breakpoints (sglang#36877)",
		api:  canon.Chat,
		a:    `{"messages":[{"role":"system","content":[{"type":"text","text":"s"}]},{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]}]}`,
		b:    `{"messages":[{"role":"system","content":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b","prompt_cache_breakpoint":true}]}]}`,
	},
	{
		name: "rolling cache_control in Messages",
		api:  canon.Messages,
		a:    `{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"f","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`,
		b:    `{"system":"s","tools":[{"name":"f"}],"messages":[{"role":"user","content":"a","cache_control":null}]}`,
	},
	{
		name: "content as string and as one part (litellm#19228)",
		api:  canon.Chat,
		a:    `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"text":"yes","type":"text"}]}]}`,
		b:    `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":"yes"}]}`,
	},
	{
		name: "null and absent optionals",
		api:  canon.Chat,
		a:    `{"tools":null,"reasoning_effort":null,"messages":[{"role":"assistant","content":"x","tool_calls":[],"refusal":null,"audio":null,"function_call":null,"name":null}]}`,
		b:    `{"messages":[{"role":"assistant","content":"x"}]}`,
	},
}

func TestReports(t *testing.T) {
	for _, c := range reports {
		t.Run(c.name, func(t *testing.T) {
			for _, level := range levels {
				a, b := run(t, c.api, level, c.a), run(t, c.api, level, c.b)
				require.Equal(t, canon.OK, a.Diagnosis.Code, a.Diagnosis)
				if level == canon.Wire && !c.wire {
					require.NotEqual(t, string(a.Body), string(b.Body))
					continue
				}
				require.Equal(t, string(a.Body), string(b.Body))
				require.Equal(t, a.Boundaries, b.Boundaries)
				require.Equal(t, a.Root, b.Root)
			}
		})
	}
}

// Both names of the reasoning are one field of the prompt, and one name on the
// wire when that is asked for (opencode#19081, litellm#41380).
func TestReportReasoningNames(t *testing.T) {
	a := `{"messages":[{"role":"assistant","content":"x","reasoning_content":"why"}]}`
	b := `{"messages":[{"role":"assistant","content":"x","reasoning":"why"}]}`
	require.Equal(t, run(t, canon.Chat, canon.Stable, a).Boundaries, run(t, canon.Chat, canon.Stable, b).Boundaries)
	require.Contains(t, string(run(t, canon.Chat, canon.Stable, a).Body), `"reasoning_content":"why"`)
	c := newCanon(t, canon.Options{ReasoningName: "reasoning"})
	renamed, err := c.Canonicalize(canon.Chat, []byte(a))
	require.NoError(t, err)
	require.JSONEq(t, b, string(renamed.Body))
	for _, keep := range []string{
		`{"messages":[{"content":"x","role":"user","reasoning_content":"why"}]}`,
		`{"messages":[{"content":"x","reasoning":"a","reasoning_content":"b","role":"assistant"}]}`,
	} {
		r, err := c.Canonicalize(canon.Chat, []byte(keep))
		require.NoError(t, err)
		require.JSONEq(t, keep, string(r.Body))
	}
}

// untouchables are texts that must come through every level as they are, once
// per line. Each is the canonical form of a member, in a place where a naive
// canonicalizer would change it.
var untouchables = []struct{ name, body, keep string }{
	{"properties keep their order (router#186, llguidance#162, vllm#3283)",
		`{"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"properties":{"reasoning":{},"answer":{}}}}}],"messages":[]}`,
		`"properties":{"reasoning":{},"answer":{}}`},
	{"response_format is left alone (router#186)",
		`{"messages":[],"response_format":{"type":"json_schema","json_schema":{"schema":{"required":["b","a"],"properties":{"z":{},"a":{}}},"name":"n"}}}`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"required":["b","a"],"properties":{"z":{},"a":{}}},"name":"n"}}`},
	{"structured_outputs is left alone",
		`{"messages":[],"structured_outputs":{"json":{"type":"object","required":["b","a"]}}}`,
		`"structured_outputs":{"json":{"type":"object","required":["b","a"]}}`},
	{"enum keeps its order", `{"tools":[{"function":{"name":"f","parameters":{"enum":["z","a"]}}}],"messages":[]}`, `"enum":["z","a"]`},
	{"anyOf keeps its order", `{"tools":[{"function":{"name":"f","parameters":{"anyOf":[{"type":"string"},{"type":"null"}]}}}],"messages":[]}`, `"anyOf":[{"type":"string"},{"type":"null"}]`},
	{"oneOf and allOf keep their order", `{"tools":[{"function":{"name":"f","parameters":{"allOf":[{"b":1},{"a":1}],"oneOf":[{"d":1},{"c":1}]}}}],"messages":[]}`, `"allOf":[{"b":1},{"a":1}],"oneOf":[{"d":1},{"c":1}]`},
	{"prefixItems and type keep their order", `{"tools":[{"function":{"name":"f","parameters":{"prefixItems":[{"b":1},{"a":1}],"type":["string","null"]}}}],"messages":[]}`, `"prefixItems":[{"b":1},{"a":1}],"type":["string","null"]`},
	{"default, const and examples are data", `{"tools":[{"function":{"name":"f","parameters":{"const":{"type":"x","required":["b","a"],"a":1},"default":{"type":1,"properties":{"z":1,"a":2}},"examples":[{"b":1,"a":2}]}}}],"messages":[]}`,
		`"const":{"type":"x","required":["b","a"],"a":1},"default":{"type":1,"properties":{"z":1,"a":2}},"examples":[{"b":1,"a":2}]`},
	{"enum values that look like schemas are data", `{"tools":[{"function":{"name":"f","parameters":{"enum":[{"type":"x","required":["b","a"],"description":"d"}]}}}],"messages":[]}`, `"enum":[{"type":"x","required":["b","a"],"description":"d"}]`},
	{"properties named like keywords are data", `{"tools":[{"function":{"name":"f","parameters":{"properties":{"type":{"enum":["b","a"]},"required":{"type":"boolean"},"enum":{},"cache_control":{"type":"string"}}}}}],"messages":[]}`,
		`"properties":{"type":{"enum":["b","a"]},"required":{"type":"boolean"},"enum":{},"cache_control":{"type":"string"}}`},
	{"$defs keep their order", `{"tools":[{"function":{"name":"f","parameters":{"$defs":{"b":{"type":"string"},"a":{"type":"null"}}}}}],"messages":[]}`, `"$defs":{"b":{"type":"string"},"a":{"type":"null"}}`},
	{"unknown keywords are data", `{"tools":[{"function":{"name":"f","parameters":{"x-order":{"required":["b","a"],"a":1}}}}],"messages":[]}`, `"x-order":{"required":["b","a"],"a":1}`},
	{"arguments are text (Mini-Agent#22, smg#1836)", `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{ \"b\": 1.0,  \"a\": \"\\u003c\" }"}}]}]}`,
		`"arguments":"{ \"b\": 1.0,  \"a\": \"\\u003c\" }"`},
	{"arguments that are an object keep their order", `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{"b":1,"cache_control":null,"a":{"z":1,"y":2}}}}]}]}`,
		`"arguments":{"b":1,"cache_control":null,"a":{"z":1,"y":2}}`},
	{"ids are never rewritten (kimi-code#2503, vllm#50782)", `{"messages":[{"role":"assistant","tool_calls":[{"id":"functions.f:0","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"functions.f:0","content":""}]}`, `"tool_call_id":"functions.f:0"`},
	{"reasoning is never dropped", `{"messages":[{"role":"assistant","content":"x","reasoning":" why \n"}]}`, `"reasoning":" why \n"`},
	{"text is never trimmed (SillyTavern#4611)", `{"messages":[{"role":"assistant","content":" x \n\n"}]}`, `"content":" x \n\n"`},
	{"text is never normalised", `{"messages":[{"role":"user","content":"e` + "\u0301" + ` ﬁ"}]}`, `"content":"e` + "\u0301" + ` ﬁ"`},
	{"escapes inside text stay (trpc-agent-go#1846)", `{"messages":[{"role":"tool","content":"{\"a\":\"\\u003c\"}"}]}`, `"content":"{\"a\":\"\\u003c\"}"`},
	{"two parts are not one", `{"messages":[{"role":"user","content":[{"text":"a","type":"text"},{"text":"b","type":"text"}]}]}`, `"content":[{"text":"a","type":"text"},{"text":"b","type":"text"}]`},
	{"a part with more in it stays a part", `{"messages":[{"role":"user","content":[{"citations":[],"text":"a","type":"text"}]}]}`, `"content":[{"citations":[],"text":"a","type":"text"}]`},
	{"null content stays", `{"messages":[{"role":"assistant","content":null}]}`, `"content":null`},
	{"empty content stays", `{"messages":[{"role":"assistant","content":""},{"role":"assistant","content":[]}]}`, `{"content":"","role":"assistant"},{"content":[],"role":"assistant"}`},
	{"tools: [] stays beside a tool_choice", `{"messages":[],"tools":[],"tool_choice":"none"}`, `"tools":[]`},
	{"chat_template_kwargs keep their order", `{"messages":[],"chat_template_kwargs":{"b":{"z":1,"a":null},"a":[]}}`, `"chat_template_kwargs":{"b":{"z":1,"a":null},"a":[]}`},
	{"documents keep their order", `{"messages":[],"documents":[{"title":"t","text":"x","doc_id":1}]}`, `"documents":[{"title":"t","text":"x","doc_id":1}]`},
	{"unknown members keep their order inside", `{"messages":[{"role":"user","content":"x","vendor":{"b":[],"a":null}}],"zz":{"b":null,"a":{"cache_control":1}}}`, `"zz":{"b":null,"a":{"cache_control":1}}`},
	{"metadata keeps its order", `{"messages":[],"metadata":{"b":"1","a":"2"}}`, `"metadata":{"b":"1","a":"2"}`},
	{"an unfinished batch stays", `{"messages":[{"role":"assistant","tool_calls":[{"id":"1"},{"id":"2"},{"id":"3"}]},{"role":"tool","tool_call_id":"3"},{"role":"tool","tool_call_id":"1"},{"role":"user","content":"x"}]}`,
		`{"role":"tool","tool_call_id":"3"},{"role":"tool","tool_call_id":"1"}`},
	{"a batch with a repeated id stays", `{"messages":[{"role":"assistant","tool_calls":[{"id":"1"},{"id":"1"}]},{"role":"tool","tool_call_id":"2"},{"role":"tool","tool_call_id":"1"}]}`, `{"role":"tool","tool_call_id":"2"},{"role":"tool","tool_call_id":"1"}`},
	{"a batch with a foreign id stays", `{"messages":[{"role":"assistant","tool_calls":[{"id":"1"},{"id":"2"}]},{"role":"tool","tool_call_id":"9"},{"role":"tool","tool_call_id":"1"}]}`, `{"role":"tool","tool_call_id":"9"},{"role":"tool","tool_call_id":"1"}`},
	{"a batch without ids stays", `{"messages":[{"role":"assistant","tool_calls":[{"type":"function"},{"type":"function"}]},{"role":"tool","content":"b"},{"role":"tool","content":"a"}]}`, `{"content":"b","role":"tool"},{"content":"a","role":"tool"}`},
	{"turns never move", `{"messages":[{"role":"user","content":"b"},{"role":"system","content":"s"},{"role":"user","content":"a"}]}`, `[{"content":"b","role":"user"},{"content":"s","role":"system"},{"content":"a","role":"user"}]`},
	{"tools of one name keep their order", `{"tools":[{"function":{"description":"b","name":"f"}},{"function":{"description":"a","name":"f"}}],"messages":[]}`, `[{"function":{"description":"b","name":"f"}},{"function":{"description":"a","name":"f"}}]`},
}

func TestUntouchables(t *testing.T) {
	for _, c := range untouchables {
		t.Run(c.name, func(t *testing.T) {
			for _, level := range []canon.Level{canon.Wire, canon.Stable} {
				r := run(t, canon.Chat, level, c.body)
				require.Equal(t, canon.OK, r.Diagnosis.Code, r.Diagnosis)
				require.Contains(t, string(r.Body), c.keep, level)
			}
			require.Contains(t, string(run(t, canon.Chat, canon.Strong, strings.Replace(c.body, `"messages"`, `"response_format":{},"messages"`, 1)).Body), c.keep)
		})
	}
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	for _, n := range []string{"9007199254740993", "1.0", "-0", "1e400", "1E+2", "0.10", "12345678901234567890", "-0.0e-0"} {
		body := `{"tools":[{"function":{"name":"f","parameters":{"minimum":` + n + `}}}],"messages":[{"role":"user","content":"x","n":` + n + `}],"temperature":` + n + `,"x":[` + n + `]}`
		for _, level := range levels {
			out := string(run(t, canon.Chat, level, body).Body)
			require.Equal(t, strings.Count(body, n), strings.Count(out, n), "%s: %s", n, out)
		}
	}
}

func TestStrongSortsPropertiesOfToolsOnly(t *testing.T) {
	const list = `[{"function":{"name":"f","parameters":{"properties":{"b":{"properties":{"z":{},"y":{}}},"a":{}}}}}]`
	const sorted = `"properties":{"a":{},"b":{"properties":{"y":{},"z":{}}}}`
	const kept = `"properties":{"b":{"properties":{"z":{},"y":{}}},"a":{}}`
	for body, want := range map[string]string{
		`{"messages":[],"tools":` + list + `}`:                                                        sorted,
		`{"messages":[],"tool_choice":"auto","tools":` + list + `}`:                                   sorted,
		`{"messages":[],"tool_choice":"required","tools":` + list + `}`:                               kept,
		`{"messages":[],"response_format":{"type":"json_object"},"tools":` + list + `}`:               kept,
		`{"messages":[],"guided_json":{},"tools":` + list + `}`:                                       kept,
		`{"messages":[],"tools":` + strings.Replace(list, `"name"`, `"strict":true,"name"`, 1) + `}`:  kept,
		`{"messages":[],"tools":` + strings.Replace(list, `"name"`, `"strict":false,"name"`, 1) + `}`: sorted,
	} {
		require.Contains(t, string(run(t, canon.Chat, canon.Strong, body).Body), want, body)
		require.Contains(t, string(run(t, canon.Chat, canon.Stable, body).Body), kept, body)
	}
}

// A schema under $defs is walked like any other.
func TestDefsAreWalked(t *testing.T) {
	r := run(t, canon.Chat, canon.Stable, `{"tools":[{"function":{"name":"f","parameters":{"$defs":{"d":{"type":"object","required":["b","a"],"items":{"type":"x","not":{"type":"y","const":1}}}}}}}],"messages":[]}`)
	require.Contains(t, string(r.Body), `"$defs":{"d":{"items":{"not":{"const":1,"type":"y"},"type":"x"},"required":["a","b"],"type":"object"}}`)
}
