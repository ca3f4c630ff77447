package e2e

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// series is one case of testdata/gauges.json.
type series struct {
	What    string      `json:"what"`
	Columns []string    `json:"columns"`
	Rows    [][]float64 `json:"rows"`
}

// last is the value of a column in the last row, in which the engine is idle.
func (s series) last(t *testing.T, column string) float64 {
	for i, c := range s.Columns {
		if c == column {
			return s.Rows[len(s.Rows)-1][i]
		}
	}
	require.Fail(t, "no such column", column)
	return 0
}

// TestRecordedGauges states what an estimate of the backlog may assume: once
// an engine is idle, queries is ahead of prompt by the prompts that were aborted
// while they were computed, and hits of prompt_cached by what those had hit.
func TestRecordedGauges(t *testing.T) {
	text, err := os.ReadFile("testdata/gauges.json")
	require.NoError(t, err)
	var recorded struct {
		Cases map[string]series `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(text, &recorded))
	for name, s := range recorded.Cases {
		ahead := s.last(t, "queries") - s.last(t, "prompt")
		assert.Zero(t, s.last(t, "running")+s.last(t, "waiting"), name)
		assert.Equal(t, s.last(t, "hits"), s.last(t, "prompt_cached"), name)
		if name == "abort in prefill" {
			assert.Equal(t, 3135.0, ahead, name)
			assert.Zero(t, s.last(t, "prompt"), name)
		} else {
			assert.Zero(t, ahead, "%s: %s", name, s.What)
		}
	}
	assert.Contains(t, recorded.Cases, "abort in prefill")
}
