package main

import (
	"slices"
	"time"
)

// curves are what a row's plots show, out of all of its trials.
type curves struct {
	trials  int
	ttft    [curvePoints]float64 // seconds, of the fastest to the slowest request; sum over trials
	spans   time.Duration        // the longest trial
	samples []sample             // of the first trial
	changes []fleetChange        // likewise
	shares  []float64            // likewise, by instance
}

// curvePoints is how finely a distribution is drawn: every percent.
const curvePoints = 101

// sample is the prompt of one request.
type sample struct {
	at             time.Duration
	prompt, cached int
}

func (c *curves) add(t *trial) {
	c.trials++
	var ttft []float64
	for _, o := range t.outcomes {
		if o.err != nil {
			continue
		}
		ttft = append(ttft, o.first.Seconds())
		c.spans = max(c.spans, o.sent)
		if c.trials == 1 && o.cached >= 0 {
			c.samples = append(c.samples, sample{o.sent, o.prompt, o.cached})
		}
	}
	if c.trials == 1 {
		c.changes, c.shares = t.changes, t.result().Shares
	}
	if len(ttft) == 0 {
		return
	}
	slices.Sort(ttft)
	for i := range c.ttft {
		c.ttft[i] += ttft[min(len(ttft)-1, i*len(ttft)/(curvePoints-1))]
	}
}

// distribution returns the mean over the trials of the time to first token at
// each percent of the requests.
func (c *curves) distribution() []float64 {
	mean := make([]float64, curvePoints)
	for i, v := range c.ttft {
		mean[i] = v / float64(max(c.trials, 1))
	}
	return mean
}

// hits returns the hit rate of the requests sent in each of n parts of the time
// until end, -1 where there were none.
func (c *curves) hits(n int, end time.Duration) []float64 {
	prompt, cached := make([]float64, n), make([]float64, n)
	for _, s := range c.samples {
		i := min(n-1, int(float64(n)*s.at.Seconds()/max(end.Seconds(), 1e-9)))
		prompt[i] += float64(s.prompt)
		cached[i] += float64(s.cached)
	}
	rates := make([]float64, n)
	for i := range rates {
		rates[i] = -1
		if prompt[i] > 0 {
			rates[i] = cached[i] / prompt[i]
		}
	}
	return rates
}
