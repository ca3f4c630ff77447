package canon_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
)

// What looks volatile is found as a whole: what changes with a date, such as the
// day of its week, is part of it.
func TestFindVolatile(t *testing.T) {
	for _, c := range []struct {
		text, found string // found: the stretches, with | between them
		kind        canon.VolatileKind
	}{
		{"Today's date: Sun Mar 01 2026.", "Sun Mar 01 2026", canon.DateText}, // toDateString of JavaScript
		{"Sun, 01 Mar 2026 14:05:09 GMT", "Sun, 01 Mar 2026 14:05:09", canon.TimeText},
		{"Sun Mar  1 14:05:09 UTC 2026", "Sun Mar  1 14:05:09 UTC 2026", canon.TimeText}, // date(1)
		{"Sun Mar  1 14:05:09 2026", "Sun Mar  1 14:05:09 2026", canon.TimeText},         // ctime
		{"Sunday, March 1, 2026", "Sunday, March 1, 2026", canon.DateText},
		{"Sunday, 1 March 2026", "Sunday, 1 March 2026", canon.DateText},
		{"Sunday 2026-03-01", "Sunday 2026-03-01", canon.DateText},
		{"It is Sunday, 2:05 PM", "Sunday, 2:05 PM", canon.TimeText},
		{"March 1, 2026", "March 1, 2026", canon.DateText},
		{"2026-03-01 and 2026-03-02", "2026-03-01|2026-03-02", canon.DateText},
		{"Sunday, May and Sun", "", 0},
		{"Sundays 2026", "", 0},
		{"Sunday" + strings.Repeat(" Sunday", 10), "", 0},
	} {
		all := canon.FindVolatile([]byte(c.text))
		var found []string
		for _, v := range all {
			found = append(found, c.text[v.Start:v.End])
			require.Equal(t, c.kind, v.Kind, c.text)
		}
		require.Equal(t, c.found, strings.Join(found, "|"))
	}
}
