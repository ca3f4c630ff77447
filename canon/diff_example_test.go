package canon_test

import (
	"fmt"

	"github.com/prefixwise/prefixwise/canon"
)

// The second request has the time of day in its system text and lists its tools
// in another order. Canonicalization mends the order; the time is the caller's.
func ExampleDiff() {
	a := []byte(`{"model":"m","tools":[{"type":"function","function":{"name":"find"}},{"type":"function","function":{"name":"put"}}],
		"messages":[{"role":"system","content":"It is 14:05:09. Answer in one sentence."},{"role":"user","content":"Where is it?"}]}`)
	b := []byte(`{"model":"m","tools":[{"type":"function","function":{"name":"put"}},{"type":"function","function":{"name":"find"}}],
		"messages":[{"role":"system","content":"It is 14:07:30. Answer in one sentence."},{"role":"user","content":"Where is it?"}]}`)
	d := canon.Diff(canon.Chat, a, b)
	fmt.Println(d)
	fmt.Println(d.Change, d.Message, d.Offset, d.Sent.Change)
	// Output:
	// volatile-text at messages[0].content byte 10 (system): a time, "14:05:09" and "14:07:30", and nothing else
	//   first:  "It is 14:05:09. Answer in one sentence."
	//   second: "It is 14:07:30. Answer in one sentence."
	//   110 bytes of prompt are shared, 45 after them are lost
	//   if it stood at the end of the prompt, 37 more would be shared
	//   as sent, without canonicalization: tool-order at tools[0] byte 0: "put" stands where "find" stood
	//     first:  "{\"function\":{\"name\":\"find\"},\"type\":\"function\"}"
	//     second: "{\"function\":{\"name\":\"put\"},\"type\":\"function\"}"
	//     21 bytes of prompt are shared, 134 after them are lost
	//     canonicalization at stable removes that difference
	// volatile-text 0 10 tool-order
}

func ExampleLint() {
	for _, f := range canon.Lint(canon.Chat, []byte(`{"model":"m","messages":[
		{"role":"system","content":"Today is March 1, 2026. Answer in one sentence."},
		{"role":"user","content":"Is my flight on 2026-03-04 late?"}]}`)) {
		fmt.Println(f)
	}
	// Output:
	// volatile-text: a date in system text ("March 1, 2026") at messages[0].content byte 9: "Today is March 1, 2026. Answer in one sentence."; if it differs from request to request, nothing after it is shared: put it into the last message
}
