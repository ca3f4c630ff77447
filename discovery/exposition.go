package discovery

import (
	"bytes"
	"errors"
	"fmt"
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

// The series that must be there, as bits.
const (
	sawRunning = 1 << iota
	sawWaiting
	sawQueries
	sawHits
	sawPrompt
	sawFirst
	sawAll = 1<<iota - 1

	// The old names of queries and hits.
	sawOldQueries = sawAll + 1
	sawOldHits    = sawOldQueries << 1
)

var sawNames = [...]string{
	"num_requests_running", "num_requests_waiting", "prefix_cache_queries_total",
	"prefix_cache_hits_total", "prompt_tokens_total", "time_to_first_token_seconds_count",
}

// parsed is one engine while a page is read.
type parsed struct {
	Metrics
	saw                 int
	oldQueries, oldHits uint64
}

// takeOld uses the old names of series, gpu_prefix_cache_…, where the new ones
// are missing: vLLM renamed them in 0.9.2, and some versions have both.
func (e *parsed) takeOld() {
	if e.saw&sawQueries == 0 && e.saw&sawOldQueries != 0 {
		e.PrefixQueries, e.saw = e.oldQueries, e.saw|sawQueries
	}
	if e.saw&sawHits == 0 && e.saw&sawOldHits != 0 {
		e.PrefixHits, e.saw = e.oldHits, e.saw|sawHits
	}
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
		bit := 0
		name := string(rest[:end])
		switch name {
		case "num_requests_running":
			bit = sawRunning
		case "num_requests_waiting":
			bit = sawWaiting
		case "prefix_cache_queries_total":
			bit = sawQueries
		case "prefix_cache_hits_total":
			bit = sawHits
		case "gpu_prefix_cache_queries_total":
			bit = sawOldQueries
		case "gpu_prefix_cache_hits_total":
			bit = sawOldHits
		case "prompt_tokens_total":
			bit = sawPrompt
		case "time_to_first_token_seconds_count":
			bit = sawFirst
		case "cache_config_info":
		default:
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
		if bit == 0 {
			e.CacheTokens = cacheTokens(labels)
			e.NoPrefixCaching = strings.EqualFold(labels["enable_prefix_caching"], "false")
			continue
		}
		fields := bytes.Fields(after)
		if len(fields) == 0 {
			return nil, fmt.Errorf("metrics: vllm:%s has no value", name)
		}
		v, err := strconv.ParseFloat(string(fields[0]), 64)
		if err != nil || !(v >= 0 && v < 1<<62) {
			return nil, fmt.Errorf("metrics: vllm:%s is %.40q, which is no count", name, fields[0])
		}
		e.saw |= bit
		switch bit {
		case sawRunning:
			e.Running += int(v)
		case sawWaiting:
			e.Waiting += int(v)
		case sawQueries:
			e.PrefixQueries += uint64(v)
		case sawHits:
			e.PrefixHits += uint64(v)
		case sawOldQueries:
			e.oldQueries += uint64(v)
		case sawOldHits:
			e.oldHits += uint64(v)
		case sawPrompt:
			e.PromptTokens += uint64(v)
		case sawFirst:
			e.FirstTokens += uint64(v)
		}
	}
	if len(engines) == 0 {
		return nil, fmt.Errorf("metrics: %w", ErrNoMetrics)
	}
	all := make(map[string]Metrics, len(engines))
	for label, e := range engines {
		e.takeOld()
		if e.saw&sawAll != sawAll {
			for i, name := range sawNames {
				if e.saw&(1<<i) == 0 {
					return nil, fmt.Errorf("metrics: %w: vllm:%s is missing", ErrNoMetrics, name)
				}
			}
		}
		all[label] = e.Metrics
	}
	return all, nil
}

func cacheTokens(labels map[string]string) int {
	number := func(name string) int {
		n, err := strconv.Atoi(labels[name]) // "None" before the memory is measured
		if err != nil || n < 0 || n > 1<<40 {
			return 0
		}
		return n
	}
	if n := number("kv_cache_size_tokens"); n > 0 {
		return n
	}
	blocks, size := number("num_gpu_blocks"), number("block_size")
	if size > 1<<20 {
		return 0
	}
	return blocks * size
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
