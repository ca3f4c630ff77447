package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

// engineNumbers describe the simulated engine where it is not to be the default
// one, as -engine gives them: a JSON file with these members, or name=value, or
// both. A number that is not given is the default (see package vllmsim).
type engineNumbers map[string]float64

// engineNames are the members, with what each sets.
var engineNames = map[string]func(*vllmsim.Config, float64){
	"prefill_token":  func(c *vllmsim.Config, v float64) { c.PrefillTokensPerSecond = 1 / v }, // seconds for each computed token
	"prefill_pair":   func(c *vllmsim.Config, v float64) { c.PrefillPairsPerSecond = 1 / v },  // … and each token before it
	"prefill_step":   func(c *vllmsim.Config, v float64) { c.PrefillStep = seconds(v) },       // more for a step that computes a prompt
	"step":           func(c *vllmsim.Config, v float64) { c.DecodeStep = seconds(v) },        // for any step
	"sequence":       func(c *vllmsim.Config, v float64) { c.DecodeSequence = seconds(v) },    // for each answer that is written
	"context_token":  func(c *vllmsim.Config, v float64) { c.DecodeContextToken = seconds(v) },
	"block":          func(c *vllmsim.Config, v float64) { c.BlockTokens = int(v) },
	"batch_tokens":   func(c *vllmsim.Config, v float64) { c.MaxBatchTokens = int(v) }, // of one step
	"sequences":      func(c *vllmsim.Config, v float64) { c.MaxSequences = int(v) },
	"context_length": func(c *vllmsim.Config, v float64) { c.MaxModelLen = int(v) },
}

// mostNumber is more than any engine has, of tokens or of seconds.
const mostNumber = 1_000_000_000

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// parseEngine reads the value of -engine: files and name=value, comma-separated.
func parseEngine(list string) (engineNumbers, error) {
	n := engineNumbers{}
	for _, word := range strings.Split(list, ",") {
		if word == "" {
			continue
		}
		name, text, isNumber := strings.Cut(word, "=")
		if !isNumber {
			if err := n.read(word); err != nil {
				return nil, fmt.Errorf("-engine: %w", err)
			}
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("-engine: %q is not a number", word)
		}
		n[name] = v
	}
	for name, v := range n {
		if engineNames[name] == nil {
			return nil, fmt.Errorf("-engine: unknown number %q; use %s", name, strings.Join(slices.Sorted(maps.Keys(engineNames)), ", "))
		}
		if !(v > 0) || v > mostNumber {
			return nil, fmt.Errorf("-engine: %s is %g; it must be above 0 and at most %g", name, v, float64(mostNumber))
		}
	}
	return n, nil
}

// read takes the members of a file: our own form, or what probe_speed.py of
// internal/e2e has recorded.
func (n engineNumbers) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var probed struct {
		Fits *vllmsim.Fits `json:"fits"`
	}
	if err := json.Unmarshal(text, &probed); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if f := probed.Fits; f != nil {
		n["prefill_token"], n["prefill_pair"] = f.Prefill.Token, f.Prefill.Pair
		n["step"], n["sequence"], n["context_token"] = f.Decode.Step, f.Decode.Sequence, f.Decode.Token
		if more := f.Prefill.Start - f.Decode.Step; more > 0 {
			n["prefill_step"] = more
		}
		return nil
	}
	if err := json.Unmarshal(text, &n); err != nil {
		return fmt.Errorf("%s: want one object with numbers, or a recording of internal/e2e/probe_speed.py: %w", file, err)
	}
	return nil
}

// apply sets the numbers of an engine.
func (n engineNumbers) apply(c *vllmsim.Config) {
	for name, v := range n {
		engineNames[name](c, v)
	}
}
