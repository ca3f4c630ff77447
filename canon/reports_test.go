package canon_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reportTable lists public reports of prompt caches that missed, or of requests
// that were made canonical to their harm, and what canon has to say to each:
//
//	mended: two spellings become one form      (reports_mended_test.go)
//	told:   Lint or Diff names the fault       (reports_told_test.go)
//	kept:   what must not be touched is not    (reports_kept_test.go)
//	keyed:  the hashes tell apart what differs (reports_keyed_test.go)
//
// The subtests there begin with the numbers of the reports that they answer.
var reportTable = [...]struct{ report, by string }{
	1:  {"codex#2610: tools in a HashMap", "mended"},
	2:  {"goclaw#718: a map shuffles tools, and files in the system text", "mended told"},
	3:  {"bifrost#2347: maps shuffle tools and properties", "mended"},
	4:  {"bifrost#3362: 261 spellings of one list of tools", "mended"},
	5:  {"docker-agent#3233: a map shuffles tools, and a list of them in the system text", "mended told"},
	6:  {"ai-sdk-go#157: registry in random order", "mended"},
	7:  {"thane-ai-agent#804: registry map", "mended"},
	8:  {"term-llm#113: one session hits and misses by turns", "mended"},
	9:  {"ggcode#2445: range over a map", "mended"},
	10: {"trpc-mcp-go#109: range over a map beside an ordered list", "mended"},
	11: {"zeroclaw#10959: 65 tools in 4 orders", "mended"},
	12: {"deepagents#2497: MCP lists tools in any order", "mended"},
	13: {"modelcontextprotocol#2516: the order is the host's job", "mended"},
	14: {"coday#1322: a query without ORDER BY", "mended"},
	15: {"hass_local_openai_llm#119: two tools swapped", "mended"},
	16: {"hermes-agent#27339: tools shuffled, thoughts erased", "mended told"},
	17: {"openbot#113: another choice of tools each run", "told"},
	18: {"bifrost#1742: extra parameters through a map", "mended"},
	19: {"bifrost#898, #2082: properties through a map", "mended"},
	20: {"openai-go#901: extra fields in random order", "mended"},
	21: {"ollama#18430: the engine ranges a map; not the client's to fix", "told"},
	22: {"FlowDown#273: schema keys permute", "mended"},
	23: {"sglang#34553: properties and required swapped", "mended"},
	24: {"sglang#39616: the engine prints fields in its own order; not the client's to fix", "told"},
	25: {"logfire#1930: a server's schemas flip", "mended"},
	26: {"DeepSeek-Reasonix#2189: sort keys and sets, keep enum and unions", "mended kept"},
	27: {"swift-ai-sdk#39: results marshalled anew in random order", "told"},
	28: {"openai-go#467: HTML escapes in the body", "mended"},
	29: {"trpc-agent-go#1846: HTML escapes in a result's text", "told kept"},
	30: {"Mini-Agent#22: arguments marshalled anew", "told kept"},
	31: {"smg#1836: compact and spaced arguments", "told kept"},
	32: {"hermes-agent#7988: arguments compacted before each call", "kept"},
	33: {"vllm#13826, #46308: the engine's parser escapes arguments", "kept"},
	34: {"mistral-vibe#615: arguments that are not JSON", "told kept"},
	35: {"omlx#2148, llm-d-kv-cache#573: a router without tool calls in its key", "keyed"},
	36: {"vercel/ai#16567: results in completion order", "mended"},
	37: {"harness-sdk#2112: results in completion order", "mended"},
	38: {"open-swe#2198: one pair of results swapped", "mended"},
	39: {"claude-code#24168: a nonce opens the system text", "told keyed"},
	40: {"omlx#2881: a count of tokens left", "told"},
	41: {"anything-llm#6398: the time to the minute", "told"},
	42: {"pi#2013: the time to the second", "told"},
	43: {"goose#2434: a timestamp", "told"},
	44: {"opencode#32622: the date", "told"},
	45: {"oh-my-pi#7404: directory and date ahead of the tools", "told"},
	46: {"home-generative-agent#619: the time first, tools by relevance", "told mended"},
	47: {"open-chat-studio#3649: current_datetime", "told"},
	48: {"opencode#19081: reasoning_content stripped", "told kept keyed"},
	49: {"Crow#60: reasoning left out", "told kept"},
	50: {"litellm#41380: reasoning_content dropped for another name", "told mended keyed"},
	51: {"litellm#40288: reasoning rebuilt from a summary", "told"},
	52: {"Qwen3.8#112: the template drops old reasoning; not the client's to fix, but for preserve_thinking", "told keyed"},
	53: {"sglang#36877: rolling cache breakpoints", "mended"},
	54: {"litellm#19228: a string and one part", "mended"},
	55: {"SillyTavern#4611: trailing whitespace trimmed", "told kept"},
	56: {"hermes-agent#3991: random ids where none came", "told kept"},
	57: {"kimi-code#2503, vllm#50782: ids rewritten", "kept"},
	58: {"codex#35416: another reasoning effort", "told keyed"},
	59: {"dust#29267, local-operator#529: history pruned each turn", "told"},
	60: {"router#186: properties sorted", "kept"},
	61: {"llguidance#162, vllm#3283: the order of properties steers", "kept"},
	62: {"autogen#8211: a key without tool_choice served wrong answers", "kept keyed"},
}

// Every report is answered in each way that the table says, and no test claims
// a report that the table does not give it.
func TestReportTableIsComplete(t *testing.T) {
	require.Len(t, reportTable, 63)
	answers := map[string][]int{}
	for by, names := range reportTests() {
		for _, name := range names {
			answers[by] = append(answers[by], numbersOf(t, name)...)
		}
	}
	for n, row := range reportTable {
		if n == 0 {
			continue
		}
		require.NotEmpty(t, row.report, n)
		ways := strings.Fields(row.by)
		require.NotEmpty(t, ways, n)
		for by, numbers := range answers {
			require.Equal(t, slices.Contains(ways, by), slices.Contains(numbers, n), "%d %s, %s", n, row.report, by)
		}
	}
	require.Len(t, answers, 4)
}

var leadingNumbers = regexp.MustCompile(`^(\d\d )*`)

// numbersOf returns the numbers that the name of a subtest begins with.
func numbersOf(t *testing.T, name string) []int {
	var all []int
	for _, word := range strings.Fields(leadingNumbers.FindString(name)) {
		n, err := strconv.Atoi(word)
		require.NoError(t, err)
		all = append(all, n)
	}
	return all
}

// reportTests returns the names of the subtests, by what they show.
func reportTests() map[string][]string {
	names := map[string][]string{}
	for _, c := range reports {
		names["mended"] = append(names["mended"], c.name)
	}
	names["mended"] = append(names["mended"], reasoningNames)
	for _, c := range toldReports {
		names["told"] = append(names["told"], c.name)
	}
	for _, c := range untouchables {
		names["kept"] = append(names["kept"], c.name)
	}
	for _, c := range keyedReports {
		names["keyed"] = append(names["keyed"], c.name)
	}
	return names
}
