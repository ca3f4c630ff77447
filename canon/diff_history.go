package canon

import (
	"fmt"
)

// swapped reports whether message m of the second prompt, a tool result, is in
// the first one's batch too, at another place.
func (c *comparison) swapped(m int) bool {
	if m < 0 || m >= c.a.messages() || m >= c.b.messages() || !isResult(c.a.message(m)) || !isResult(c.b.message(m)) {
		return false
	}
	for j := m + 1; j < c.a.messages() && isResult(c.a.message(j)); j++ {
		if c.a.print(j) == c.b.print(m) {
			for i := m + 1; i < c.b.messages() && isResult(c.b.message(i)); i++ {
				if c.b.print(i) == c.a.print(m) {
					return true
				}
			}
		}
	}
	return false
}

func isResult(message []Segment) bool { return len(message) > 0 && message[0].Role == "tool" }

// history classifies a message that differs for no finer reason.
func (c *comparison) history(m int) (Change, string) {
	if change, detail := c.moved(m); change != Rewritten {
		return change, detail
	}
	return Rewritten, ""
}

// moved looks for message m of either prompt at a later place of the other. It
// answers Rewritten when it is not there.
func (c *comparison) moved(m int) (Change, string) {
	if m < 0 {
		return Rewritten, ""
	}
	na, nb := c.a.messages(), c.b.messages()
	if n := lag(&c.a, &c.b, m); n > 0 {
		return Truncated, fmt.Sprintf("the second lacks %s of the first", span(m, n))
	}
	if n := lag(&c.b, &c.a, m); n > 0 {
		return Inserted, fmt.Sprintf("the first lacks %s of the second", span(m, n))
	}
	switch {
	case c.firstUser(m):
		return OtherRoot, ""
	case m >= na-1 || m >= nb-1:
		return Branched, ""
	}
	return Rewritten, ""
}

// tellingBytes is how long a message must be for its coming back to mean
// something: "yes" comes back by chance.
const tellingBytes = 64

// lag returns how many messages of x, from m on, y lacks: y's messages from m
// on are found that much later in x. Two in a row must agree, or one of some
// length.
func lag(x, y *view, m int) int {
	if m >= y.messages() {
		return 0
	}
	for j := m + 1; j < x.messages(); j++ {
		if x.print(j) != y.print(m) {
			continue
		}
		pair := j+1 < x.messages() && m+1 < y.messages()
		if pair && x.print(j+1) == y.print(m+1) || !pair && sizeOf(x.message(j)) >= tellingBytes {
			return j - m
		}
	}
	return 0
}

func sizeOf(segments []Segment) int {
	n := 0
	for i := range segments {
		n += segments[i].Size
	}
	return n
}

func span(m, n int) string {
	if n == 1 {
		return fmt.Sprintf("message %d", m)
	}
	return fmt.Sprintf("messages %d to %d", m, m+n-1)
}

// firstUser reports whether message m is the first of a user in both prompts.
func (c *comparison) firstUser(m int) bool {
	if m >= c.a.messages() || m >= c.b.messages() {
		return false
	}
	for i := 0; i < m; i++ {
		if s := c.a.message(i); len(s) > 0 && s[0].Role == "user" {
			return false
		}
	}
	sa, sb := c.a.message(m), c.b.message(m)
	return len(sa) > 0 && len(sb) > 0 && sa[0].Role == "user" && sb[0].Role == "user"
}
