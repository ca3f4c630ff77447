package discovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Join returns a resolver for everything that the given ones find. Asked once, it
// fails when one of them fails; [Watch] takes it apart, so that one that fails keeps
// its own last good set and delays none of the others.
func Join(resolvers ...Resolver) Resolver {
	var out joined
	for _, r := range resolvers {
		switch r := r.(type) {
		case nil:
		case joined:
			out = append(out, r...)
		default:
			out = append(out, r)
		}
	}
	return out
}

type joined []Resolver

func (j joined) Resolve(ctx context.Context) ([]Endpoint, error) {
	var (
		out  []Endpoint
		errs []error
		seen = make(map[string]bool)
	)
	for _, r := range j {
		endpoints, err := r.Resolve(ctx)
		errs = append(errs, err)
		for _, e := range endpoints {
			if !seen[e.ID] {
				seen[e.ID] = true
				out = append(out, e)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, ErrNoEndpoints
	}
	return out, nil
}

// Parse reads a fleet from one string, as the environment variable
// PREFIXWISE_ENDPOINTS holds it: a comma-separated list of
//
//   - http://host:8000 or https://…: one instance ([Static]),
//   - name=http://host:8000: the same with a name for its identity,
//   - dns+http://name:8000: one instance an address of the name ([DNS]),
//   - srv+http://_http._tcp.name: one instance a target ([SRV]).
//
// Space around entries and empty entries do not matter. The options are for the
// lookups.
func Parse(spec string, opts ...Option) (Resolver, error) {
	var (
		static []string
		parts  []Resolver
		seen   = make(map[string]string)
	)
	for _, entry := range strings.Split(spec, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		kind, rest := cutKind(entry)
		var (
			r   Resolver
			key string
			err error
		)
		switch kind {
		case "dns":
			if r, err = DNS(rest, opts...); err == nil {
				key = "dns+" + identityOf(r.(*dnsResolver).url)
			}
		case "srv":
			if r, err = newSRV(rest, opts); err == nil {
				key = "srv+" + identityOf(r.(*srvResolver).url)
			}
		default:
			if strings.ContainsAny(entry, " \t\r\n;|") {
				return nil, fmt.Errorf("discovery: %q looks like several endpoints: separate them with commas", redact(entry))
			}
			static = append(static, entry)
			continue
		}
		if err != nil {
			return nil, withKind(kind, err)
		}
		if first, ok := seen[key]; ok {
			return nil, fmt.Errorf("discovery: %q and %q are the same name: leave one out", first, redact(entry))
		}
		seen[key] = redact(entry)
		parts = append(parts, r)
	}
	if len(static) > 0 {
		r, err := Static(static...)
		if err != nil {
			return nil, err
		}
		parts = append([]Resolver{r}, parts...)
	}
	switch len(parts) {
	case 0:
		return nil, fmt.Errorf("discovery: no endpoints: write for instance %q", exampleURL+",http://10.0.0.2:8000")
	case 1:
		return parts[0], nil
	}
	return Join(parts...), nil
}

// cutKind splits "dns+" and "srv+" off an entry.
func cutKind(entry string) (kind, rest string) {
	for _, kind := range []string{"dns", "srv"} {
		if n := len(kind) + 1; len(entry) >= n && strings.EqualFold(entry[:n], kind+"+") {
			return kind, entry[n:]
		}
	}
	return "", entry
}

// withKind makes a message about the URL one about the entry.
func withKind(kind string, err error) error {
	var bad *URLError
	if !errors.As(err, &bad) {
		return err
	}
	return &URLError{Given: kind + "+" + bad.Given, Problem: bad.Problem, Write: kind + "+" + bad.Write}
}
