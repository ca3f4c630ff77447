package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// defaultMetricsInterval is short against the time for which a queue lasts.
	defaultMetricsInterval = time.Second
	// metricsTimeout is below the time for which the placement believes a reading.
	metricsTimeout = 3 * time.Second
	// maxMetricsBody: vLLM's page has some 60 KB for each engine and model.
	maxMetricsBody = 4 << 20
	// slowestMetrics is the interval for an engine that has not told anything for
	// long; its path may be closed for good.
	slowestMetrics = 30 * time.Second
	// metricsGiveUp is how many readings in a row must fail before the interval
	// grows: a restart takes longer, a hiccup is shorter.
	metricsGiveUp = 3
)

// metricsLoop reads the metrics of one place until ctx ends.
func (w *Watcher) metricsLoop(ctx context.Context, p *place) {
	fails := 0
	for {
		asked := time.Now()
		next := w.MetricsInterval
		if w.MetricsWanted == nil || w.MetricsWanted() {
			engines, err := w.readMetrics(ctx, p)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				if fails >= metricsGiveUp {
					w.Logger.Info("discovery: metrics are read again", "endpoint", p.endpoint.ID)
				}
				fails = 0
				w.deliverMetrics(p, engines)
			} else {
				fails++
				if fails == metricsGiveUp {
					w.Logger.Warn("discovery: metrics not read; placement goes by this client's own requests", "endpoint", p.endpoint.ID, "error", err)
				}
				if fails >= metricsGiveUp {
					next = max(next, min(next<<min(fails, 8), slowestMetrics))
				}
			}
		}
		if !wait(ctx, p.kickMetrics, next, asked) {
			return
		}
	}
}

// readMetrics asks /metrics once, without credentials: vLLM's API key does not
// guard it.
func (w *Watcher) readMetrics(ctx context.Context, p *place) (map[string]Metrics, error) {
	status, body, err := w.get(ctx, p, "/metrics", nil, metricsTimeout, maxMetricsBody)
	switch {
	case errors.Is(err, errTooLong):
		return nil, fmt.Errorf("metrics: the page is longer than %d bytes", maxMetricsBody)
	case err != nil:
		return nil, fmt.Errorf("metrics: %w", err)
	case status != http.StatusOK:
		return nil, fmt.Errorf("metrics: status %d", status)
	}
	return ParseMetrics(body)
}

// deliverMetrics hands the metrics to OnMetrics for each member at the place. A
// rank gets those of its own engine, another member the sum of all.
func (w *Watcher) deliverMetrics(p *place, engines map[string]Metrics) {
	var sum Metrics
	for _, m := range engines {
		sum.add(m)
	}
	for _, m := range w.current.Load().members {
		if m.Addr != p.key.addr || *m.URL != *p.endpoint.URL {
			continue
		}
		if m.Rank == NoRank {
			w.OnMetrics(m.ID, sum)
		} else if own, ok := engines[strconv.Itoa(m.Rank)]; ok {
			w.OnMetrics(m.ID, own)
		}
	}
}
