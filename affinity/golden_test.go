package affinity

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the results in testdata/golden.jsonl anew; if they change, every client of every fleet moves its keys")

// A vector is a line of testdata/golden.jsonl. It fixes what clients of
// different versions and architectures must agree on: how a request becomes
// keys (if it has no endpoints), or how a key orders endpoints. Hashes are in
// hexadecimal, because JSON numbers lose digits; the order is in places of the
// list of endpoints.
type vector struct {
	Head     string `json:"head,omitempty"`
	Root     string `json:"root,omitempty"`
	Session  string `json:"session,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	CacheKey string `json:"cache_key,omitempty"`
	HeadKey  string `json:"head_key,omitempty"`
	RootKey  string `json:"root_key,omitempty"`

	Key       string   `json:"key,omitempty"`
	Endpoints []string `json:"endpoints,omitempty"`
	Weights   []uint32 `json:"weights,omitempty"`
	Order     []int    `json:"order,omitempty"`
}

// results returns the vector with its results worked out.
func (v vector) results(t *testing.T) vector {
	number := func(hex string) uint64 {
		if hex == "" {
			return 0
		}
		n, err := strconv.ParseUint(hex, 16, 64)
		require.NoError(t, err)
		return n
	}
	if v.Endpoints == nil {
		req := Request{Head: number(v.Head), Root: number(v.Root), Session: v.Session, Tenant: v.Tenant, CacheKey: v.CacheKey}
		head, root := req.Keys()
		v.HeadKey, v.RootKey = fmt.Sprintf("%016x", head), fmt.Sprintf("%016x", root)
		return v
	}
	es := make([]Endpoint, len(v.Endpoints))
	for i := range es {
		es[i].ID = v.Endpoints[i]
		if v.Weights != nil {
			es[i].Weight = v.Weights[i]
		}
	}
	v.Order = nil
	for _, id := range Order(number(v.Key), es) {
		v.Order = append(v.Order, slices.Index(v.Endpoints, id))
	}
	return v
}

func TestGolden(t *testing.T) {
	const file = "testdata/golden.jsonl"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var out bytes.Buffer
	keys, orders := 0, 0
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var want vector
		require.NoError(t, json.Unmarshal(lines.Bytes(), &want))
		got := want.results(t)
		if !*update {
			require.Equal(t, want, got)
		}
		if want.Endpoints == nil {
			keys++
		} else {
			orders++
		}
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(got))
	}
	require.GreaterOrEqual(t, keys, 15, "no vector got lost")
	require.GreaterOrEqual(t, orders, 50)
	if *update {
		require.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
	}
}
