package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/prefixwise/prefixwise/affinity"
)

// A policy is a strategy with its parameters, as written on the command line:
// fixed-prefix:length=16384:concurrency=24.
type policy struct {
	name    string // as written
	options affinity.Options
	noPolls bool // gauges=0: as if the engines had no /metrics
	carried bool // carried=1: applications carry who served the last turn
}

func parsePolicy(text string) (policy, error) {
	name, list, _ := strings.Cut(text, ":")
	strategy, err := affinity.ParseStrategy(name)
	if err != nil {
		return policy{}, err
	}
	p := policy{name: text, options: affinity.Options{Strategy: strategy}}
	for _, word := range strings.Split(list, ":") {
		if word == "" {
			continue
		}
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return policy{}, fmt.Errorf("policy %q: %q is to be a name, = and a number", text, word)
		}
		switch key {
		case "length":
			p.options.FixedPrefix.Length = int(n)
		case "concurrency":
			p.options.FixedPrefix.Concurrency = int(n)
		case "factor":
			p.options.LoadFactor = n
		case "floor":
			p.options.Floor = int(n)
		case "limit":
			p.options.Limit = int(n)
		case "gauges":
			p.noPolls = n == 0
		case "carried":
			p.carried = n != 0
		default:
			return policy{}, fmt.Errorf("policy %q: unknown parameter %q; use length, concurrency, factor, floor, limit, gauges or carried", text, key)
		}
	}
	_, err = affinity.New(p.options)
	return p, err
}

// defaultConcurrency is that of affinity.FixedPrefixOptions.
const defaultConcurrency = 24

// forClients returns the options of one of several clients. The threshold of
// fixed-prefix is meant for an instance, and SageMaker counts in one place; its
// operator would divide it among clients that count by themselves.
func (p policy) forClients(clients int) affinity.Options {
	o := p.options
	c := cmp.Or(o.FixedPrefix.Concurrency, defaultConcurrency)
	o.FixedPrefix.Concurrency = max(1, (c+clients-1)/clients)
	return o
}
