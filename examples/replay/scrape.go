package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// scraped is what one instance's /metrics says, summed over its engines.
type scraped struct {
	queries, hits float64
	cache, block  int // tokens of KV memory and of one block; 0: unknown
}

// scrapeTimeout bounds one reading; the counters are worth no longer wait.
const scrapeTimeout = 5 * time.Second

// scrape reads the counters of the instance at base.
func scrape(ctx context.Context, c *http.Client, base string) (scraped, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
	if err != nil {
		return scraped{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return scraped{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return scraped{}, fmt.Errorf("%s/metrics: %s", base, resp.Status)
	}
	s, found := parseMetrics(resp.Body)
	if !found {
		return scraped{}, fmt.Errorf("%s/metrics has no vllm:prefix_cache_queries_total", base)
	}
	return s, nil
}

// parseMetrics reads the few series that are needed out of the Prometheus text
// format; found tells whether the cache's counters are among them.
func parseMetrics(r io.Reader) (s scraped, found bool) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), "{")
		labels, value, closed := cutLast(rest, "}")
		if !ok || !closed {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			continue
		}
		switch name {
		case "vllm:prefix_cache_queries_total":
			s.queries += v
			found = true
		case "vllm:prefix_cache_hits_total":
			s.hits += v
		case "vllm:cache_config_info":
			block, blocks := labelNumber(labels, "block_size"), labelNumber(labels, "num_gpu_blocks")
			s.block = block
			if tokens := labelNumber(labels, "kv_cache_size_tokens"); tokens > 0 {
				s.cache += tokens
			} else {
				s.cache += block * blocks
			}
		}
	}
	return s, found
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// labelNumber returns the value of a label, 0 when it is absent or no number.
func labelNumber(labels, name string) int {
	_, rest, ok := strings.Cut(","+labels, ","+name+`="`)
	if !ok {
		return 0
	}
	text, _, _ := strings.Cut(rest, `"`)
	n, _ := strconv.Atoi(text)
	return n
}

// sampler adds up the counters of all instances while an arm runs, so that an
// instance that dies counts with what it had done until shortly before.
type sampler struct {
	fleet *realFleet
	last  []scraped
	ok    []bool // last is valid
	sum   []served
}

// sampleEvery is how often counters are read during a run.
const sampleEvery = time.Second

func newSampler(ctx context.Context, f *realFleet) *sampler {
	s := &sampler{fleet: f, last: make([]scraped, len(f.targets)), ok: make([]bool, len(f.targets)), sum: make([]served, len(f.targets))}
	for i, in := range f.targets {
		s.sum[i].name = in.id
		if !in.hasCounters {
			continue
		}
		var err error
		s.last[i], err = scrape(ctx, f.http, in.base)
		s.ok[i] = err == nil
		s.sum[i].counted = err == nil
	}
	return s
}

// read takes a reading of every instance. Counters that have gone back are
// those of an instance that was started anew.
func (s *sampler) read(ctx context.Context) {
	for i, in := range s.fleet.targets {
		if !in.hasCounters {
			continue
		}
		now, err := scrape(ctx, s.fleet.http, in.base)
		if err != nil {
			continue
		}
		from := s.last[i]
		if !s.ok[i] || now.queries < from.queries || now.hits < from.hits {
			from = scraped{}
		}
		s.sum[i].queries += now.queries - from.queries
		s.sum[i].hits += now.hits - from.hits
		s.last[i], s.ok[i] = now, true
	}
}

// run reads until ctx ends.
func (s *sampler) run(ctx context.Context) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.read(ctx)
		case <-ctx.Done():
			return
		}
	}
}
