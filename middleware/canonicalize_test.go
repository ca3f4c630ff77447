package middleware

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// The memory that bodies are read into is used again, and a transport may read
// what it was given after the call: no later body shows in it.
func TestBodiesOfCallsAreApart(t *testing.T) {
	c, err := canon.New(canon.Options{})
	require.NoError(t, err)
	for _, keep := range []bool{false, true} {
		var again []func() (io.ReadCloser, error)
		chain := Canonicalize(c, CanonicalizeOptions{KeepBody: keep})(roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			again = append(again, req.GetBody)
			return status(200, answerOK)
		}))
		var want []string
		for i := range 20 {
			body := fmt.Sprintf(`{"model":"m","messages":[{"content":"%02d","role":"user"}]}`, i)
			if i%2 == 1 {
				body = fmt.Sprintf(`{"model":"m","model":"n","messages":[{"content":"%02d","role":"user"}]}`, i) // passed on as it is
			}
			_, err := post(t.Context(), chain, chatPath, body)
			require.NoError(t, err)
			want = append(want, body)
		}
		for i, body := range again {
			r, err := body()
			require.NoError(t, err)
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, want[i], string(got))
		}
	}
}
