package middleware

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
)

// TestBoundariesOf: each turn's boundaries begin with those of the turn before,
// as many as Previous says, whatever a request has in it.
func TestBoundariesOf(t *testing.T) {
	image := `[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]`
	turns := []string{
		`{"role":"user","content":` + image + `}`,
		`{"role":"assistant","content":""},{"role":"user","content":"` + fmt.Sprintf("%03000d", 1) + `"}`,
		`{"role":"assistant","content":"b"},{"role":"user","content":` + image + `},{"role":"user","content":` + image + `}`,
	}
	for _, head := range []string{``, `"tools":[{"type":"function","function":{"name":"f"}}],`, `"documents":[{"text":"d"}],`} {
		var before []affinity.Boundary
		list := `{"role":"system","content":""}`
		for n, turn := range turns {
			list += "," + turn
			body := `{"model":"m",` + head + `"messages":[` + list + `],"continue_final_message":false,"add_generation_prompt":false}`
			p, err := canon.Canonicalize(canon.Chat, []byte(body))
			require.NoError(t, err)
			require.Zero(t, p.Diagnosis)
			all, previous := boundariesOf(&p)
			assert.Len(t, before, previous, "turn %d", n)
			assert.Equal(t, before, append([]affinity.Boundary(nil), all[:previous]...), "turn %d", n)
			found := false
			for i, b := range all {
				found = found || b.Hash == p.Head
				if i > 0 {
					assert.Greater(t, b.Bytes, all[i-1].Bytes)
				}
			}
			assert.True(t, found, "the head is a boundary")
			before = all
		}
	}
	p, err := canon.Canonicalize(canon.Chat, []byte(`{`))
	require.NoError(t, err)
	all, previous := boundariesOf(&p)
	assert.Equal(t, []affinity.Boundary{{Hash: p.Head, Bytes: 1}}, all)
	assert.Zero(t, previous)
	all, _ = boundariesOf(&canon.Result{})
	assert.Empty(t, all)
}

func TestPlacementToken(t *testing.T) {
	a, b := PlacementToken("http://a:8000"), PlacementToken("http://b:8000")
	assert.NotEqual(t, a, b)
	assert.Equal(t, "p1.", a[:3])
	assert.Len(t, a, 19)
	assert.NotContains(t, a, "a:8000")
	assert.Equal(t, "p1.XZ3vNHHYDTnLVpWi", a, "the same in every process and version")
}
