package pwprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prefixwise/prefixwise/middleware"
)

// buckets are the bounds of both histograms, in seconds: those that the
// OpenTelemetry conventions give for gen_ai.client.operation.duration, up to
// the five minutes that a first token may take by default.
var buckets = prometheus.ExponentialBuckets(0.01, 2, 16)

// calls are the metrics that a client's Trace is told of.
type calls struct {
	duration, firstToken *prometheus.HistogramVec
	failed, retries      *prometheus.CounterVec
	failovers            prometheus.Counter
	completion           prometheus.Counter
}

func newCalls() calls {
	histogram := func(name, help string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, []string{"outcome"})
		for _, o := range []middleware.Outcome{middleware.OutcomeOK, middleware.OutcomeRefused, middleware.OutcomeFailed, middleware.OutcomeCanceled} {
			h.WithLabelValues(string(o)) // so that it is there, at zero, before the first
		}
		return h
	}
	byCause := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{"cause"})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	}
	return calls{
		duration:   histogram("call_duration_seconds", "Time from a call's begin to the end of its answer."),
		firstToken: histogram("time_to_first_token_seconds", "Time from a call's begin to the first content of a stream."),
		failed:     byCause("failures_total", "Calls that were refused by an engine or failed, by cause."),
		retries:    byCause("retries_total", "Attempts that failed and were followed by another, by cause."),
		failovers:  counter("failovers_total", "Calls that were answered, though not by their first attempt."),
		completion: counter("completion_tokens_total", "Tokens that engines reported to have generated."),
	}
}

func (m *calls) retrying(r middleware.Retrying) { m.retries.WithLabelValues(r.Cause()).Inc() }

func (m *calls) done(d middleware.Done) {
	outcome := d.Outcome()
	m.duration.WithLabelValues(string(outcome)).Observe(d.Total.Seconds())
	if d.FirstByte > 0 {
		m.firstToken.WithLabelValues(string(outcome)).Observe(d.FirstByte.Seconds())
	}
	if d.CompletionTokens > 0 {
		m.completion.Add(float64(d.CompletionTokens))
	}
	switch {
	case outcome == middleware.OutcomeRefused || outcome == middleware.OutcomeFailed:
		m.failed.WithLabelValues(d.Cause()).Inc()
	case outcome == middleware.OutcomeOK && d.Attempts > 1:
		m.failovers.Inc()
	}
}

func (m *calls) all() []prometheus.Collector {
	return []prometheus.Collector{m.duration, m.firstToken, m.failed, m.retries, m.failovers, m.completion}
}

func (m *calls) describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(to)
	}
}

func (m *calls) collect(to chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(to)
	}
}
