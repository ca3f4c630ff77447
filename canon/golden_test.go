package canon_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

var updateGolden = flag.Bool("update-golden", false, "write testdata/golden.json anew; a breaking change, see keyVersion")

// golden is a request with the hashes that every process must compute for it:
// clients that disagree send one conversation to two instances.
type golden struct {
	API  string   `json:"api"`
	Body string   `json:"body"`
	Head string   `json:"head"`
	Root string   `json:"root"`
	All  []string `json:"boundaries"`
}

func hex(h uint64) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 16)
	for i := range b {
		b[i] = digits[h>>(60-4*i)&15]
	}
	return string(b)
}

func TestGoldenHashes(t *testing.T) {
	const file = "testdata/golden.json"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var cases []golden
	require.NoError(t, json.Unmarshal(text, &cases))
	for i := range cases {
		c := &cases[i]
		api := canon.Unknown
		for _, a := range apis {
			if a.String() == c.API {
				api = a
			}
		}
		r := run(t, api, canon.Stable, c.Body)
		var all []string
		for _, b := range r.Boundaries {
			all = append(all, hex(b.Hash))
		}
		if *updateGolden {
			c.Head, c.Root, c.All = hex(r.Head), hex(r.Root), all
			continue
		}
		require.Equal(t, c.Head, hex(r.Head), c.Body)
		require.Equal(t, c.Root, hex(r.Root), c.Body)
		require.Equal(t, c.All, all, c.Body)
	}
	if *updateGolden {
		text, err := json.MarshalIndent(cases, "", "\t")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, append(text, '\n'), 0o644))
	}
}
