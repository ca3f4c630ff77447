package canon_test

import (
	"fmt"

	"github.com/prefixwise/prefixwise/canon"
)

// Two clients spell one request in two ways. The bytes that are sent are the
// same, and so are the hashes that a router looks at.
func ExampleCanonicalizer_Canonicalize() {
	c, err := canon.New(canon.Options{})
	if err != nil {
		panic(err)
	}
	a, _ := c.Canonicalize(canon.Chat, []byte(`{"model":"m","messages":[{"role":"user","content":"1 < 2?"}],"temperature":0}`))
	b, _ := c.Canonicalize(canon.Chat, []byte(`{
		"temperature": 0,
		"messages": [{"content": [{"type": "text", "text": "1 \u003c 2?"}], "role": "user"}],
		"model": "m"
	}`))
	fmt.Println(string(a.Body))
	fmt.Println(string(a.Body) == string(b.Body), a.Root == b.Root)
	// Output:
	// {"model":"m","messages":[{"content":"1 < 2?","role":"user"}],"temperature":0}
	// true true
}
