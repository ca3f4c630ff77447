package e2e

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

func TestSimulatorConforms(t *testing.T) {
	sim, err := vllmsim.NewServer(vllmsim.Config{
		Model: "tiny", Adapters: []string{"lora-a", "lora-b"}, MaxModelLen: 16384, BlockTokens: 32, MaxBatchTokens: 2048})
	require.NoError(t, err)
	defer sim.Close()
	server := httptest.NewServer(sim)
	defer server.Close()
	conform(t, dial(t, server.URL))
}
