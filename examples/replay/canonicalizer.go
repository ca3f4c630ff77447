package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
)

// canonicalizer makes outlines of requests, as package client would.
type canonicalizer struct {
	canon    *canon.Canonicalizer
	prefixes []int
}

func newCanonicalizer(prefixes []int) (*canonicalizer, error) {
	c, err := canon.New(canon.Options{IncludeUsage: true, ReasoningName: "reasoning"})
	return &canonicalizer{c, prefixes}, err
}

// outline reads a request of which the path is known, or "".
func (c *canonicalizer) outline(path string, body []byte) (*outline, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	api := apiOf(path, members)
	if api == canon.Unknown {
		return nil, errors.New(`no "messages", "prompt" or "input" in the request`)
	}
	r, err := c.canon.Canonicalize(api, body)
	if err != nil {
		return nil, err
	}
	if r.Diagnosis.Code != canon.OK {
		return nil, fmt.Errorf("the request is not as the API has it: %s", r.Diagnosis.Detail)
	}
	o := &outline{
		api: api, body: r.Body, model: r.Model, head: r.Head, root: r.Root, previous: r.Previous, cacheKey: r.CacheKey,
		boundaries: make([]affinity.Boundary, len(r.Boundaries)), fixed: map[int]uint64{},
	}
	for i, b := range r.Boundaries {
		o.boundaries[i] = affinity.Boundary{Hash: b.Hash, Bytes: b.Offset}
	}
	for _, n := range c.prefixes {
		o.fixed[n] = r.FixedPrefix(n, canon.Characters)
	}
	return o, nil
}

// apiOf tells the kind of a request by its path or, without one, by its members.
func apiOf(path string, members map[string]json.RawMessage) canon.API {
	for suffix, api := range map[string]canon.API{
		"/chat/completions": canon.Chat, "/responses": canon.Responses, "/embeddings": canon.Embeddings, "/messages": canon.Messages,
	} {
		if strings.HasSuffix(path, suffix) {
			return api
		}
	}
	switch {
	case has("messages")(members):
		return canon.Chat
	case has("prompt")(members):
		return canon.Completions
	case has("input")(members):
		return canon.Responses
	}
	return canon.Unknown
}

// pathOf is where requests of an API go, below /v1.
var pathOf = map[canon.API]string{
	canon.Chat: "/chat/completions", canon.Completions: "/completions", canon.Responses: "/responses",
	canon.Embeddings: "/embeddings", canon.Messages: "/messages",
}

// send returns the request as it is sent to a fleet: for the fleet's model,
// streamed, and with an answer of so many tokens at most.
func (o *outline) send(model string, output int) (path string, body []byte, err error) {
	set := map[string]any{"model": model}
	switch o.api {
	case canon.Embeddings:
	case canon.Responses:
		set["stream"], set["max_output_tokens"] = true, output
	case canon.Chat:
		set["stream"], set["max_completion_tokens"], set["max_tokens"] = true, output, nil
	default:
		set["stream"], set["max_tokens"] = true, output
	}
	raw := map[string]json.RawMessage{}
	for name, value := range set {
		if raw[name], err = json.Marshal(value); err != nil {
			return "", nil, err
		}
	}
	body, err = canon.Merge(o.body, raw)
	return pathOf[o.api], body, err
}
