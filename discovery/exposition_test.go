package discovery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// page writes what an engine with that label tells, as Python's client does.
func page(engine string, m Metrics) string {
	labels := fmt.Sprintf(`{engine=%q,model_name="m"}`, engine)
	return `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running` + labels + fmt.Sprintf(" %d.0\n", m.Running) + `
vllm:num_requests_waiting` + labels + fmt.Sprintf(" %d.0\n", m.Waiting) + `
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 77.0
vllm:prefix_cache_queries_total` + labels + fmt.Sprintf(" %v\n", float64(m.PrefixQueries)) + `
vllm:prefix_cache_queries_created` + labels + ` 1.7641e+09
vllm:prefix_cache_hits_total` + labels + fmt.Sprintf(" %v\n", float64(m.PrefixHits)) + `
vllm:prompt_tokens_total` + labels + fmt.Sprintf(" %v\n", float64(m.PromptTokens)) + `
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 99.0
vllm:time_to_first_token_seconds_count` + labels + fmt.Sprintf(" %d.0\n", m.FirstTokens) + `
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="` + map[bool]string{true: "False", false: "True"}[m.NoPrefixCaching] +
		`",engine="` + engine + fmt.Sprintf(`",kv_cache_size_tokens="%d",num_gpu_blocks="None"} 1.0`, m.CacheTokens) + "\n" + `
process_start_time_seconds 1.7641e+09
`
}

func TestParseMetrics(t *testing.T) {
	one := Metrics{Running: 3, Waiting: 2, PrefixQueries: 12345678, PrefixHits: 2345, PromptTokens: 12000000, FirstTokens: 41, CacheTokens: 26912}
	two := Metrics{Running: 1, PrefixQueries: 5, PromptTokens: 4, FirstTokens: 1, CacheTokens: 16, NoPrefixCaching: true}
	got, err := ParseMetrics([]byte(page("0", one) + page("1", two)))
	require.NoError(t, err)
	assert.Equal(t, map[string]Metrics{"0": one, "1": two}, got)

	both := strings.ReplaceAll(page("0", two), `model_name="m"`, `model_name="a \"quoted\" \\ name, } engine=\"9\""`)
	got, err = ParseMetrics([]byte(page("0", one) + both))
	require.NoError(t, err)
	assert.Equal(t, 4, got["0"].Running, "series of two models are added up")
	assert.Len(t, got, 1)

	old := strings.NewReplacer("prefix_cache_", "gpu_prefix_cache_", `kv_cache_size_tokens="26912",num_gpu_blocks="None"`, `num_gpu_blocks="1682"`)
	got, err = ParseMetrics([]byte(strings.ReplaceAll(old.Replace(page("0", one)), `engine="0",`, "")))
	require.NoError(t, err)
	assert.Equal(t, one, got[""], "an older engine, without labels for engines")

	both = page("0", one) + `vllm:gpu_prefix_cache_queries_total{engine="0"} 99` + "\n" + `vllm:gpu_prefix_cache_hits_total{engine="0"} 98` + "\n"
	got, err = ParseMetrics([]byte(both))
	require.NoError(t, err)
	assert.Equal(t, one, got["0"], "a version that has both names tells the same twice")

	for what, bad := range map[string]string{
		"no vLLM metrics":           "# nothing\nsglang:num_running_reqs 4.0\n",
		"hits_total is missing":     strings.ReplaceAll(page("0", one), "vllm:prefix_cache_hits_total", "vllm:other"),
		"waiting is missing":        page("0", one) + `vllm:num_requests_running{engine="1"} 1.0` + "\n",
		"which is no count":         strings.ReplaceAll(page("0", one), " 41.0", " NaN"),
		"has no value":              strings.ReplaceAll(page("0", one), " 41.0", ""),
		"labels of vllm:num_reques": strings.ReplaceAll(page("0", one), `{engine="0",model_name="m"} 2.0`, `{engine="0 2.0`),
	} {
		_, err := ParseMetrics([]byte(bad))
		assert.ErrorContains(t, err, what)
	}
	for what, bad := range map[string]string{
		`vllm:num_requests_running is "2147483648", which is no count`:      `vllm:num_requests_running{engine="0"} 2147483648`,
		`vllm:prompt_tokens_total is "9007199254740992", which is no count`: `vllm:prompt_tokens_total{engine="0"} 9007199254740992`,
	} {
		_, err := ParseMetrics([]byte(page("0", one) + bad + "\n"))
		assert.ErrorContains(t, err, what)
	}
	huge := strings.Replace(page("0", one), `kv_cache_size_tokens="26912",num_gpu_blocks="None"`, `num_gpu_blocks="1099511627776",block_size="1048576"`, 1)
	got, err = ParseMetrics([]byte(huge))
	require.NoError(t, err)
	assert.Zero(t, got["0"].CacheTokens, "unknown, rather than nonsense that others are added to")
	_, err = ParseMetrics(nil)
	assert.ErrorIs(t, err, ErrNoMetrics)
}

func FuzzParseMetrics(f *testing.F) {
	f.Add([]byte(page("0", Metrics{Running: 1, CacheTokens: 16})))
	f.Add([]byte("vllm:num_requests_running{a=\"b\\\"\\\\\\n\",} 1e3 17\nvllm:cache_config_info{num_gpu_blocks=\"99999999999\",block_size=\"999999\"} 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		engines, err := ParseMetrics(b)
		if err != nil && engines != nil {
			t.Fatal("both an answer and an error")
		}
		for _, m := range engines {
			if m.Running < 0 || m.Waiting < 0 || m.CacheTokens < 0 {
				t.Fatalf("negative: %+v", m)
			}
		}
	})
}
