package main

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/client"
)

// A policy is a strategy with its parameters, as written on the command line:
// fixed-prefix:length=16384:concurrency=24.
type policy struct {
	name    string // as written
	options affinity.Options
	noPolls bool   // gauges=0: as if the engines had no /metrics
	carried bool   // carried=1: applications carry who served the last turn
	simOnly string // a parameter that the client has no option for
}

// parameterOf names the strategy of the parameters that only one has.
var parameterOf = map[string]affinity.Strategy{
	"length": affinity.FixedPrefix, "concurrency": affinity.FixedPrefix,
	"factor": affinity.BoundedLoad, "floor": affinity.BoundedLoad,
	"gauges": affinity.Affinity, "carried": affinity.Affinity,
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
		if whole := math.Trunc(n) == n && math.Abs(n) <= math.MaxInt32; !whole && key != "factor" {
			return policy{}, fmt.Errorf("policy %q: %s is %s; use a whole number", text, key, value)
		}
		switch key {
		case "length":
			p.options.FixedPrefix.Length = int(n)
		case "concurrency":
			p.options.FixedPrefix.Concurrency = int(n)
		case "factor":
			p.options.LoadFactor, p.simOnly = n, key
		case "floor":
			p.options.Floor, p.simOnly = int(n), key
		case "limit":
			p.options.Limit = int(n)
		case "gauges":
			p.noPolls, p.simOnly = n == 0, key
		case "carried":
			p.carried, p.simOnly = n != 0, key
		default:
			return policy{}, fmt.Errorf("policy %q: unknown parameter %q; use length, concurrency, factor, floor, limit, gauges or carried", text, key)
		}
		if (key == "gauges" || key == "carried") && n != 0 && n != 1 {
			return policy{}, fmt.Errorf("policy %q: %s is %s; use 0 or 1", text, key, value)
		}
		if of, ok := parameterOf[key]; ok && of != strategy {
			return policy{}, fmt.Errorf("policy %q: %s is a parameter of %s", text, key, of)
		}
	}
	_, err = affinity.New(p.options)
	return p, err
}

// prefixLength is the number of characters that fixed-prefix hashes.
func (p policy) prefixLength() int {
	return cmp.Or(p.options.FixedPrefix.Length, 4096) // the default of affinity.FixedPrefixOptions
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

// clientOptions says the same to the product's client.
func (p policy) clientOptions(clients int) ([]client.Option, error) {
	if p.simOnly != "" {
		return nil, fmt.Errorf("policy %s: the client has no option for %s; leave it out with -endpoints", p.name, p.simOnly)
	}
	o := p.forClients(clients)
	options := []client.Option{client.WithStrategy(o.Strategy), client.WithLimit(o.Limit)}
	if o.Strategy == affinity.FixedPrefix {
		options = append(options, client.WithFixedPrefix(o.FixedPrefix.Length, o.FixedPrefix.Concurrency))
	}
	return options, nil
}
