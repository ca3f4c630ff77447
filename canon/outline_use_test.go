package canon

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// promptUse and the shapes of the writer say the same about every name.
func TestPromptUseAgreesWithTheShapes(t *testing.T) {
	for api := Chat; api <= Messages; api++ {
		known := map[string]use{}
		for _, f := range shapes[rootRule[api]] {
			known[knownNames[f.id]] = f.use
		}
		for _, name := range knownNames {
			require.Equal(t, known[name], promptUse(api, name), "%s of %s", name, api)
		}
	}
}
