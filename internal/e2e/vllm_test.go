//go:build vllm

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// engines are the running instances that the environment names.
func engines(t testing.TB) []endpoint {
	list := os.Getenv("PREFIXWISE_E2E_ENDPOINTS")
	require.NotEmpty(t, list, "set PREFIXWISE_E2E_ENDPOINTS to what `fleet endpoints` prints")
	var all []endpoint
	for _, url := range strings.Split(list, ",") {
		all = append(all, dial(t, strings.TrimSpace(url)))
	}
	return all
}

func TestEngineConforms(t *testing.T) {
	for _, e := range engines(t) {
		t.Run(e.url, func(t *testing.T) { conform(t, e) })
	}
}
