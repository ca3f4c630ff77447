package canon

import (
	"bytes"
)

// volatileDepth is how far into a text Lint looks for what changes: 8 KiB.
// Behind it there is little left of a system text to lose, and what stands
// there is more often a document than an instruction.
const volatileDepth = 8 << 10

// contextBytes is how much text around a date tells whether it is the
// present: about six words.
const contextBytes = 40

// Words before a date or time that make it the present …
var presentWords = []string{
	"current", "today", "now", "as of", "date:", "time:", "date is", "time is", "datetime", "timestamp",
	"generated", "session", "started", "it is", "<date>", "<time>", "env", "local time",
}

// … and words that make it an example, a format or a fact.
var factWords = []string{
	"e.g", "example", "such as", "format", "i.e", "like", "cutoff", "cut-off", "since", "until", "effective", "version",
	"between", "before", "after", "from", "released", "born", "iso 8601", "iso-8601", "default", "valid", "published",
}

// changes reports whether a stretch of a system text or of a tool's
// description most likely changes from request to request. What has the form
// of a date may be an example of one; what has that of a nonce cannot.
func (v Volatile) changes(text []byte) bool {
	before := bytes.ToLower(text[max(0, v.Start-contextBytes):v.Start])
	// A sentence or line before says nothing about this one.
	if k := bytes.LastIndexAny(before, "\n"); k >= 0 {
		before = before[k+1:]
	}
	switch v.Kind {
	case UUIDText:
		return !mentions(before, factWords)
	case EpochText: // or a telephone number
		return mentions(before, presentWords) || mentions(before, []string{"ts", "epoch", "unix"})
	case NonceText:
		return nonceName(before)
	case CounterText:
		return counterTag(before)
	case DateText:
		return mentions(before, presentWords) && !mentions(before, factWords)
	}
	if mentions(before, factWords) {
		return false
	}
	// A date with its time, to the second, is hardly ever a fact of a policy.
	full := bytes.Count(text[v.Start:v.End], []byte(":")) >= 2 && v.End-v.Start >= len("2026-03-01 14:05:09")
	return full || mentions(before, presentWords)
}

func mentions(text []byte, words []string) bool {
	for _, w := range words {
		if k := bytes.Index(text, []byte(w)); k >= 0 && (k == 0 || !isWord(text[k-1]) || !isWord(w[0])) {
			return true
		}
	}
	return false
}

// nonceName reports whether the name before a random value says that it is
// one: a hash, a commit or a colour may be there for good.
func nonceName(before []byte) bool {
	return mentions(lastWord(before), []string{
		"cch", "nonce", "request_id", "requestid", "request-id", "trace", "trace_id", "traceid", "span_id", "session",
		"session_id", "sessionid", "session-id", "run_id", "runid", "id", "token", "cache_buster", "cachebuster", "salt", "random", "seed", "uuid",
	})
}

// lastWord returns the name that ends before the separator at the end of text.
func lastWord(text []byte) []byte {
	text = bytes.TrimRight(text, ` =:"'`)
	i := len(text)
	for i > 0 && (isWord(text[i-1]) || text[i-1] == '-') {
		i--
	}
	return text[i:]
}

// counterTag reports whether what stands before a number that "is left" is a
// tag or a statement about a budget, as in <total_tokens>1234 left.
func counterTag(before []byte) bool {
	return len(before) > 0 && before[len(before)-1] == '>' ||
		mentions(before, []string{"you have", "budget", "tokens", "token usage", "context", "remaining", "turn"})
}
