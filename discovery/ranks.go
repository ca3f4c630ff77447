package discovery

import (
	"context"
	"fmt"
	"strconv"
)

// Ranks returns a resolver that turns each endpoint of r into n, one for each
// data-parallel rank behind it: vLLM with --data-parallel-size n is one URL with n
// caches. The identity of rank 3 ends in "#3". One rank is no rank: with n = 1 the
// endpoints stay as they are.
func Ranks(r Resolver, n int) (Resolver, error) {
	if r == nil {
		return nil, fmt.Errorf("discovery: Ranks needs a resolver")
	}
	if n < 1 {
		return nil, fmt.Errorf("discovery: %d data-parallel ranks: write 1 or more (vLLM's --data-parallel-size)", n)
	}
	if n == 1 {
		return r, nil
	}
	if j, ok := r.(joined); ok {
		out := make(joined, len(j))
		for i, part := range j {
			split, err := Ranks(part, n)
			if err != nil {
				return nil, err
			}
			out[i] = split
		}
		return out, nil
	}
	if k, ok := r.(known); ok {
		split, err := split(k.known(), n)
		if err != nil {
			return nil, err
		}
		return fixed{split}, nil
	}
	return ranked{r, n}, nil
}

type ranked struct {
	inner Resolver
	n     int
}

func (r ranked) Resolve(ctx context.Context) ([]Endpoint, error) {
	endpoints, err := r.inner.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	return split(endpoints, r.n)
}

func split(endpoints []Endpoint, n int) ([]Endpoint, error) {
	out := make([]Endpoint, 0, n*len(endpoints))
	for _, e := range endpoints {
		if e.Rank != NoRank {
			return nil, fmt.Errorf("discovery: endpoint %q has a rank already", e.ID)
		}
		id := e.ID
		for rank := range n {
			e.Rank, e.ID = rank, rankID(id, rank)
			out = append(out, e)
		}
	}
	return out, nil
}

// rankID is the identity of one rank of the instance id.
func rankID(id string, rank int) string {
	if rank < 0 {
		return id
	}
	return id + "#" + strconv.Itoa(rank)
}
