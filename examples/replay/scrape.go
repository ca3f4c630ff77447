package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/prefixwise/prefixwise/discovery"
)

// scraped is what one instance's /metrics says, summed over its engines.
type scraped struct {
	queries, hits uint64
	cache, block  int  // tokens of KV memory and of one block; 0: unknown
	uncached      bool // prefix caching is off
}

const (
	scrapeTimeout = 5 * time.Second // the counters are worth no longer wait
	maxPage       = 16 << 20
)

// blockSize finds the label of vllm:cache_config_info, which has others that end
// alike.
var blockSize = regexp.MustCompile(`[{,]block_size="([0-9]{1,6})"`)

// scrape reads the counters of the instance at base.
func scrape(ctx context.Context, c *http.Client, base string) (s scraped, err error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
	if err != nil {
		return s, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s/metrics: %s", base, resp.Status)
	}
	page, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err != nil {
		return s, err
	}
	engines, err := discovery.ParseMetrics(page)
	if err != nil {
		return s, fmt.Errorf("%s/metrics: %w", base, err)
	}
	for _, m := range engines {
		s.queries, s.hits, s.cache = s.queries+m.PrefixQueries, s.hits+m.PrefixHits, s.cache+m.CacheTokens
		s.uncached = s.uncached || m.NoPrefixCaching
	}
	if m := blockSize.FindSubmatch(page); m != nil {
		s.block, _ = strconv.Atoi(string(m[1]))
	}
	return s, nil
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
		s.sum[i].queries += float64(now.queries - from.queries)
		s.sum[i].hits += float64(now.hits - from.hits)
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
