package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Metrics are what one engine tells of itself at /metrics. vLLM's names are
// beside the fields. The counts are running totals since the engine started.
type Metrics struct {
	Running, Waiting int // num_requests_running, num_requests_waiting

	PrefixQueries, PrefixHits uint64 // prefix_cache_queries_total, prefix_cache_hits_total, in tokens
	PromptTokens              uint64 // prompt_tokens_total
	FirstTokens               uint64 // time_to_first_token_seconds_count

	// CacheTokens is the KV memory in tokens: cache_config_info's
	// kv_cache_size_tokens, or num_gpu_blocks times block_size where an older
	// engine has no such label. 0 means unknown.
	CacheTokens int
	// NoPrefixCaching is true when cache_config_info says that prefix caching is
	// off.
	NoPrefixCaching bool
}

// ErrNoMetrics says that an engine does not tell what [Metrics] holds: it is not
// vLLM, or an old one.
var ErrNoMetrics = errors.New("no vLLM metrics")

// add sums the engines of one URL.
func (m *Metrics) add(o Metrics) {
	m.Running += o.Running
	m.Waiting += o.Waiting
	m.PrefixQueries += o.PrefixQueries
	m.PrefixHits += o.PrefixHits
	m.PromptTokens += o.PromptTokens
	m.FirstTokens += o.FirstTokens
	m.CacheTokens += o.CacheTokens
	m.NoPrefixCaching = m.NoPrefixCaching || o.NoPrefixCaching
}

// series are what is read of an engine. Those before the old names must be
// there.
var series = [...]string{
	running:    "num_requests_running",
	waiting:    "num_requests_waiting",
	queries:    "prefix_cache_queries_total",
	hits:       "prefix_cache_hits_total",
	prompt:     "prompt_tokens_total",
	first:      "time_to_first_token_seconds_count",
	oldQueries: "gpu_prefix_cache_queries_total",
	oldHits:    "gpu_prefix_cache_hits_total",
}

const (
	running = iota
	waiting
	queries
	hits
	prompt
	first
	oldQueries
	oldHits
)

// More than these is nonsense; and as many of them as a page can hold can be added
// up, where those are added, without running over.
const (
	maxCount       = 1 << 46 // 20 years at 100,000 tokens a second; and 100,000 lines of them, a page, add up to less than 2^63
	maxRequests    = 1 << 31
	maxCacheTokens = 1 << 40
)

// parsed is one engine while a page is read. The sums are by series.
type parsed struct {
	sums            [len(series)]uint64
	saw             [len(series)]bool
	cacheTokens     int
	noPrefixCaching bool
}

// metrics uses the old names of series where the new ones are missing: vLLM
// renamed them in 0.9.2, and some versions have both.
func (e *parsed) metrics() (Metrics, error) {
	for now, old := range map[int]int{queries: oldQueries, hits: oldHits} {
		if !e.saw[now] {
			e.sums[now], e.saw[now] = e.sums[old], e.saw[old]
		}
	}
	for i, name := range series[:oldQueries] {
		if !e.saw[i] {
			return Metrics{}, fmt.Errorf("metrics: %w: vllm:%s is missing", ErrNoMetrics, name)
		}
	}
	return Metrics{
		Running: int(min(e.sums[running], math.MaxInt32)), Waiting: int(min(e.sums[waiting], math.MaxInt32)),
		PrefixQueries: e.sums[queries], PrefixHits: e.sums[hits],
		PromptTokens: e.sums[prompt], FirstTokens: e.sums[first],
		CacheTokens: e.cacheTokens, NoPrefixCaching: e.noPrefixCaching,
	}, nil
}

// ParseMetrics reads a page of vLLM's metrics in the Prometheus text format. The
// keys are the engine labels, "" where there is none: the data-parallel ranks
// behind one URL are engines "0", "1" and so on. Series of several models of one
// engine are added up. A page that lacks one of the series is [ErrNoMetrics].
func ParseMetrics(page []byte) (map[string]Metrics, error) {
	engines := map[string]*parsed{}
	for line := range bytes.Lines(page) {
		rest, ok := bytes.CutPrefix(line, []byte("vllm:"))
		if !ok { // a comment, a histogram of Python's, or nothing
			continue
		}
		end := bytes.IndexAny(rest, "{ ")
		if end < 0 {
			continue
		}
		name := string(rest[:end])
		i := slices.Index(series[:], name)
		if i < 0 && name != "cache_config_info" {
			continue
		}
		labels, after, ok := readLabels(rest[end:])
		if !ok {
			return nil, fmt.Errorf("metrics: the labels of vllm:%s cannot be read", name)
		}
		e := engines[labels["engine"]]
		if e == nil {
			e = new(parsed)
			engines[labels["engine"]] = e
		}
		if i < 0 {
			e.cacheTokens = cacheTokens(labels)
			e.noPrefixCaching = strings.EqualFold(labels["enable_prefix_caching"], "false")
			continue
		}
		fields := bytes.Fields(after)
		if len(fields) == 0 {
			return nil, fmt.Errorf("metrics: vllm:%s has no value", name)
		}
		v, err := strconv.ParseFloat(string(fields[0]), 64)
		if err != nil || !(v >= 0 && v < maxCount) || (i == running || i == waiting) && v >= maxRequests {
			return nil, fmt.Errorf("metrics: vllm:%s is %.40q, which is no count", name, fields[0])
		}
		e.sums[i], e.saw[i] = e.sums[i]+uint64(v), true
	}
	if len(engines) == 0 {
		return nil, fmt.Errorf("metrics: %w", ErrNoMetrics)
	}
	all := make(map[string]Metrics, len(engines))
	for label, e := range engines {
		m, err := e.metrics()
		if err != nil {
			return nil, err
		}
		all[label] = m
	}
	return all, nil
}

func cacheTokens(labels map[string]string) int {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(labels[name], 10, 64) // "None" before the memory is measured
		if err != nil || n < 0 || n > maxCacheTokens {
			return 0
		}
		return n
	}
	n := number("kv_cache_size_tokens")
	if n == 0 {
		blocks, size := number("num_gpu_blocks"), number("block_size")
		if size > 0 && blocks > maxCacheTokens/size {
			return 0
		}
		n = blocks * size
	}
	return int(min(n, math.MaxInt))
}

// readLabels reads a set of labels, if there is one, and returns what follows.
func readLabels(b []byte) (labels map[string]string, rest []byte, ok bool) {
	b, braced := bytes.CutPrefix(b, []byte("{"))
	if !braced {
		return nil, b, true
	}
	labels = map[string]string{}
	for {
		b = bytes.TrimLeft(b, ", ")
		if after, done := bytes.CutPrefix(b, []byte("}")); done {
			return labels, after, true
		}
		name, value, found := bytes.Cut(b, []byte(`="`))
		if !found {
			return nil, nil, false
		}
		var text []byte
		i := 0
		for ; i < len(value) && value[i] != '"'; i++ {
			c := value[i]
			if c == '\\' && i+1 < len(value) {
				i++
				if c = value[i]; c == 'n' {
					c = '\n'
				}
			}
			text = append(text, c)
		}
		if i == len(value) {
			return nil, nil, false
		}
		labels[string(name)] = string(text)
		b = value[i+1:]
	}
}
