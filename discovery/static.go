package discovery

import (
	"context"
	"fmt"
	"strings"
)

// known is implemented by resolvers whose set never changes: [Watch] takes it
// before it returns and never asks again.
type known interface{ known() []Endpoint }

// fixed is the Resolver behind Static and List.
type fixed struct{ endpoints []Endpoint }

func (f fixed) Resolve(context.Context) ([]Endpoint, error) {
	return append([]Endpoint(nil), f.endpoints...), nil
}

func (f fixed) known() []Endpoint { return f.endpoints }

// Static returns a resolver for a fixed list of instances, each written as
// [ParseURL] takes it, or as name=URL to give it an identity that does not
// depend on where it runs. Two spellings of one instance are refused with an
// error that names both.
func Static(urls ...string) (Resolver, error) {
	if len(urls) == 0 {
		return nil, fmt.Errorf("discovery: no endpoints: write for instance %q", exampleURL)
	}
	endpoints := make([]Endpoint, 0, len(urls))
	for _, raw := range urls {
		e, err := parseNamed(raw)
		if err != nil {
			return nil, err
		}
		endpoints = append(endpoints, e)
	}
	// A named endpoint is a duplicate by its name and by its URL: one instance under
	// two names would get twice its share.
	spelling := make(map[string]string, 2*len(urls))
	for i, e := range endpoints {
		given := redact(strings.TrimSpace(urls[i]))
		keys := []string{e.ID, identityOf(e.URL)}
		for _, key := range keys {
			if first, ok := spelling[key]; ok {
				return nil, fmt.Errorf("discovery: endpoints %q and %q are the same (%s): leave one out", first, given, key)
			}
		}
		for _, key := range keys {
			spelling[key] = given
		}
	}
	return fixed{endpoints}, nil
}

// List returns a resolver for a fixed list of endpoint values. An empty ID is
// filled in from the URL; two endpoints with one ID are refused.
func List(endpoints ...Endpoint) (Resolver, error) {
	if len(endpoints) == 0 {
		return nil, fmt.Errorf("discovery: no endpoints: give at least one")
	}
	seen := make(map[string]bool, len(endpoints))
	checked := make([]Endpoint, 0, len(endpoints))
	for _, e := range endpoints {
		// Addresses are Watch's to refuse: it knows whether they are allowed.
		e, err := e.check(true)
		if err != nil {
			return nil, err
		}
		if seen[e.ID] {
			return nil, fmt.Errorf("discovery: two endpoints have the ID %q: leave one out", e.ID)
		}
		seen[e.ID] = true
		checked = append(checked, e)
	}
	return fixed{checked}, nil
}

// parseNamed reads name=URL or URL.
func parseNamed(raw string) (Endpoint, error) {
	name, rest, ok := strings.Cut(raw, "=")
	if !ok || strings.ContainsAny(name, ":/?#@") {
		return ParseURL(raw)
	}
	name = strings.TrimSpace(name)
	e, err := ParseURL(rest)
	if err != nil {
		return Endpoint{}, err
	}
	if name == "" || len(name) > 253 || strings.ContainsFunc(name, func(r rune) bool { return !hostRune(r) }) {
		return Endpoint{}, &URLError{
			Given:   redact(strings.TrimSpace(raw)),
			Problem: "has a name with other than letters, digits, '-', '_' and '.'",
			Write:   "vllm-0=" + e.URL.String(),
		}
	}
	e.ID = name
	return e, nil
}
