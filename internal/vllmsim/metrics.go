package vllmsim

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
)

// metrics writes the counters in the Prometheus text format under vLLM's names.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	c := s.Counters()
	m := &exposition{labels: fmt.Sprintf(`engine="0",model_name=%q`, s.cfg.Model)}
	m.gauge("vllm:num_requests_running", "Sequences in the running batch.", float64(c.Running))
	m.gauge("vllm:num_requests_waiting", "Sequences in the waiting queue.", float64(c.Waiting))
	m.gauge("vllm:kv_cache_usage_perc", "Share of KV blocks that sequences hold, 0 to 1.", float64(c.UsedBlocks)/float64(c.TotalBlocks))
	m.counter("vllm:prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", c.PrefixQueries)
	m.counter("vllm:prefix_cache_hits", "Prompt tokens found in the prefix cache.", c.PrefixHits)
	m.counter("vllm:prompt_tokens", "Prompt tokens processed.", c.PromptTokens)
	m.counter("vllm:prompt_tokens_cached", "Prompt tokens that came from the cache.", c.CachedTokens)
	m.head("vllm:prompt_tokens_by_source_total", "Prompt tokens by where they came from.", "counter")
	m.sample("vllm:prompt_tokens_by_source_total", `,source="local_compute"`, float64(c.PromptTokens-c.CachedTokens))
	m.sample("vllm:prompt_tokens_by_source_total", `,source="local_cache_hit"`, float64(c.CachedTokens))
	m.counter("vllm:generation_tokens", "Tokens generated.", c.GenerationTokens)
	m.counter("vllm:num_preemptions", "Sequences preempted.", c.Preemptions)
	m.head("vllm:request_success_total", "Finished sequences.", "counter")
	for _, x := range []struct {
		reason string
		n      uint64
	}{{"stop", c.Stopped}, {"length", c.Cut}, {"abort", c.Aborted}} {
		m.sample("vllm:request_success_total", `,finished_reason="`+x.reason+`"`, float64(x.n))
	}
	if s.cfg.MaxQueue > 0 {
		m.head("vllm:admission_rejections_total", "Requests refused because the queue was full.", "counter")
		m.sample("vllm:admission_rejections_total", `,reason="queue_full"`, float64(c.Rejected))
	}
	m.histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", c.TTFT)
	m.histogram("vllm:e2e_request_latency_seconds", "Arrival to last token.", c.Latency)
	m.head("vllm:cache_config_info", "Cache configuration.", "gauge")
	caching := "True"
	if s.cfg.NoPrefixCaching {
		caching = "False"
	}
	fmt.Fprintf(&m.b, "vllm:cache_config_info{block_size=\"%d\",cache_dtype=\"auto\",enable_prefix_caching=%q,engine=\"0\",num_gpu_blocks=\"%d\"} 1.0\n",
		s.cfg.BlockTokens, caching, c.TotalBlocks)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(m.b.Bytes())
}

// exposition builds a page of metrics.
type exposition struct {
	labels string
	b      bytes.Buffer
}

func (m *exposition) head(name, help, kind string) {
	fmt.Fprintf(&m.b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (m *exposition) sample(name, more string, v float64) {
	fmt.Fprintf(&m.b, "%s{%s%s} %s\n", name, m.labels, more, number(v))
}

// number prints as Python's client does: 3.0, not 3.
func number(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if _, err := strconv.Atoi(s); err == nil {
		s += ".0"
	}
	return s
}

func (m *exposition) gauge(name, help string, v float64) {
	m.head(name, help, "gauge")
	m.sample(name, "", v)
}

func (m *exposition) counter(name, help string, v uint64) {
	m.head(name+"_total", help, "counter")
	m.sample(name+"_total", "", float64(v))
}

func (m *exposition) histogram(name, help string, h Histogram) {
	m.head(name, help, "histogram")
	var n uint64
	for i, bound := range h.Bounds {
		n += h.Counts[i]
		m.sample(name+"_bucket", `,le="`+number(bound)+`"`, float64(n))
	}
	m.sample(name+"_bucket", `,le="+Inf"`, float64(h.Count))
	m.sample(name+"_count", "", float64(h.Count))
	m.sample(name+"_sum", "", h.Sum.Seconds())
}
