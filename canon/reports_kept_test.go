package canon_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// untouchables are texts that must come through every level as they are, once
// per line. Each is the canonical form of a member, in a place where a naive
// canonicalizer would change it.
var untouchables = []struct{ name, body, keep string }{
	{"60 61 properties keep their order",
		`{"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"properties":{"reasoning":{},"answer":{}}}}}],"messages":[]}`,
		`"properties":{"reasoning":{},"answer":{}}`},
	{"60 response_format is left alone",
		`{"messages":[],"response_format":{"type":"json_schema","json_schema":{"schema":{"required":["b","a"],"properties":{"z":{},"a":{}}},"name":"n"}}}`,
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"required":["b","a"],"properties":{"z":{},"a":{}}},"name":"n"}}`},
	{"structured_outputs is left alone",
		`{"messages":[],"structured_outputs":{"json":{"type":"object","required":["b","a"]}}}`,
		`"structured_outputs":{"json":{"type":"object","required":["b","a"]}}`},
	{"26 enum keeps its order", `{"tools":[{"function":{"name":"f","parameters":{"enum":["z","a"]}}}],"messages":[]}`, `"enum":["z","a"]`},
	{"26 anyOf keeps its order", `{"tools":[{"function":{"name":"f","parameters":{"anyOf":[{"type":"string"},{"type":"null"}]}}}],"messages":[]}`, `"anyOf":[{"type":"string"},{"type":"null"}]`},
	{"26 oneOf and allOf keep their order", `{"tools":[{"function":{"name":"f","parameters":{"allOf":[{"b":1},{"a":1}],"oneOf":[{"d":1},{"c":1}]}}}],"messages":[]}`, `"allOf":[{"b":1},{"a":1}],"oneOf":[{"d":1},{"c":1}]`},
	{"prefixItems and type keep their order", `{"tools":[{"function":{"name":"f","parameters":{"prefixItems":[{"b":1},{"a":1}],"type":["string","null"]}}}],"messages":[]}`, `"prefixItems":[{"b":1},{"a":1}],"type":["string","null"]`},
	{"default, const and examples are data", `{"tools":[{"function":{"name":"f","parameters":{"const":{"type":"x","required":["b","a"],"a":1},"default":{"type":1,"properties":{"z":1,"a":2}},"examples":[{"b":1,"a":2}]}}}],"messages":[]}`,
		`"const":{"type":"x","required":["b","a"],"a":1},"default":{"type":1,"properties":{"z":1,"a":2}},"examples":[{"b":1,"a":2}]`},
	{"enum values that look like schemas are data", `{"tools":[{"function":{"name":"f","parameters":{"enum":[{"type":"x","required":["b","a"],"description":"d"}]}}}],"messages":[]}`, `"enum":[{"type":"x","required":["b","a"],"description":"d"}]`},
	{"properties named like keywords are data", `{"tools":[{"function":{"name":"f","parameters":{"properties":{"type":{"enum":["b","a"]},"required":{"type":"boolean"},"enum":{},"cache_control":{"type":"string"}}}}}],"messages":[]}`,
		`"properties":{"type":{"enum":["b","a"]},"required":{"type":"boolean"},"enum":{},"cache_control":{"type":"string"}}`},
	{"$defs keep their order", `{"tools":[{"function":{"name":"f","parameters":{"$defs":{"b":{"type":"string"},"a":{"type":"null"}}}}}],"messages":[]}`, `"$defs":{"b":{"type":"string"},"a":{"type":"null"}}`},
	{"unknown keywords are data", `{"tools":[{"function":{"name":"f","parameters":{"x-order":{"required":["b","a"],"a":1}}}}],"messages":[]}`, `"x-order":{"required":["b","a"],"a":1}`},
	{"30 31 32 arguments are text", `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{ \"b\": 1.0,  \"a\": \"\\u003c\" }"}}]}]}`,
		`"arguments":"{ \"b\": 1.0,  \"a\": \"\\u003c\" }"`},
	{"33 arguments keep the escapes of the engine's parser", `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\": \"\\u65e5\\u672c\"}"}}]}]}`,
		`"arguments":"{\"a\": \"\\u65e5\\u672c\"}"`},
	{"34 arguments that are not JSON stay", `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":"}}]}]}`, `"arguments":"{\"a\":"`},
	{"62 tool_choice is left alone", `{"messages":[],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"function":{"name":"f"},"type":"function"}}`,
		`"tool_choice":{"function":{"name":"f"},"type":"function"}`},
	{"guided decoding is left alone", `{"messages":[],"guided_json":{"required":["b","a"],"properties":{"z":{},"a":{}}},"guided_choice":["b","a"]}`,
		`"guided_choice":["b","a"],"guided_json":{"required":["b","a"],"properties":{"z":{},"a":{}}}`},
	{"turns of one role are not joined", `{"messages":[{"content":"a","role":"user"},{"content":"b","role":"user"}]}`, `[{"content":"a","role":"user"},{"content":"b","role":"user"}]`},
	{"arguments that are an object keep their order", `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{"b":1,"cache_control":null,"a":{"z":1,"y":2}}}}]}]}`,
		`"arguments":{"b":1,"cache_control":null,"a":{"z":1,"y":2}}`},
	{"56 57 ids are never rewritten", `{"messages":[{"role":"assistant","tool_calls":[{"id":"functions.f:0","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"functions.f:0","content":""}]}`, `"tool_call_id":"functions.f:0"`},
	{"48 49 reasoning is never dropped", `{"messages":[{"role":"assistant","content":"x","reasoning":" why \n"}]}`, `"reasoning":" why \n"`},
	{"55 text is never trimmed", `{"messages":[{"role":"assistant","content":" x \n\n"}]}`, `"content":" x \n\n"`},
	{"text is never normalised", `{"messages":[{"role":"user","content":"e` + "\u0301" + ` ﬁ"}]}`, `"content":"e` + "\u0301" + ` ﬁ"`},
	{"29 escapes inside text stay", `{"messages":[{"role":"tool","content":"{\"a\":\"\\u003c\"}"}]}`, `"content":"{\"a\":\"\\u003c\"}"`},
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
