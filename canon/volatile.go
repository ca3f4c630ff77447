package canon

import (
	"bytes"
	"sort"
)

// Volatile is a stretch of text that looks as if it changed from request to
// request: a date, a time, a random id, a counter.
type Volatile struct {
	Kind       VolatileKind
	Start, End int // bytes of the text
}

// VolatileKind says what a stretch of volatile text looks like.
type VolatileKind uint8

// The kinds of volatile text.
const (
	DateText    VolatileKind = iota // 2026-03-01, March 1, 2026
	TimeText                        // 14:05, 2:05:09 PM, or a date with its time
	EpochText                       // 1772370000, seconds or milliseconds since 1970
	UUIDText                        // 8-4-4-4-12 hexadecimal digits
	NonceText                       // cch=a1b2c, request_id: 9f86d081884c7d65
	CounterText                     // 1234 tokens left
)

var volatileNames = [...]string{"a date", "a time", "a number of seconds since 1970", "a UUID", "a nonce", "a counter"}

// String names the kind in words, such as "a date".
func (k VolatileKind) String() string {
	if int(k) < len(volatileNames) {
		return volatileNames[k]
	}
	return "volatile text"
}

// FindVolatile returns all that looks volatile in a text, in order and without
// overlap. It goes by form alone and is therefore generous: an order's date in
// a message is in the result too. [Lint] looks at the words around as well. It
// takes linear time.
func FindVolatile(text []byte) []Volatile {
	var all []Volatile
	for i := 0; i < len(text); {
		if !isWord(text[i]) || i > 0 && isWord(text[i-1]) {
			i++
			continue
		}
		v, ok := volatileAt(text, i)
		if !ok {
			i++
			continue
		}
		if n := len(all); n > 0 && joins(text, all[n-1], v) {
			all[n-1].Kind, all[n-1].End = TimeText, v.End
		} else {
			all = append(all, v)
		}
		i = max(v.End, i+1)
	}
	return all
}

// joins reports whether a time belongs to the date just before it.
func joins(text []byte, date, time Volatile) bool {
	gap := time.Start - date.End
	return date.Kind == DateText && time.Kind == TimeText && gap <= 4 &&
		len(bytes.Trim(text[date.End:time.Start], " ,Tat")) == 0
}

// volatileAt reads volatile text that begins with the word at i.
func volatileAt(text []byte, i int) (Volatile, bool) {
	word := i
	for word < len(text) && isWord(text[word]) && word-i < 64 {
		word++
	}
	if isDigit(text[i]) {
		if end := uuidAt(text, i); end > 0 {
			return Volatile{UUIDText, i, end}, true
		}
		if end := isoDateAt(text, i); end > 0 {
			if at := end + 1; end < len(text) && text[end] == 'T' && at < len(text) {
				if e := clockAt(text, at); e > 0 {
					return Volatile{TimeText, i, e}, true
				}
			}
			return Volatile{DateText, i, end}, true
		}
		if end := clockAt(text, i); end > 0 {
			return Volatile{TimeText, i, end}, true
		}
		if end := dayMonthYear(text, i); end > 0 {
			return Volatile{DateText, i, end}, true
		}
		if end := epochAt(text, i); end > 0 {
			return Volatile{EpochText, i, end}, true
		}
		if end := countAt(text, i); end > 0 {
			return Volatile{CounterText, i, end}, true
		}
		return Volatile{}, false
	}
	if end := uuidAt(text, i); end > 0 {
		return Volatile{UUIDText, i, end}, true
	}
	if end := wordyDateAt(text, i, word); end > 0 {
		if bytes.IndexByte(text[i:end], ':') >= 0 {
			return Volatile{TimeText, i, end}, true
		}
		return Volatile{DateText, i, end}, true
	}
	if start, end := nonceAt(text, word); end > 0 {
		return Volatile{NonceText, start, end}, true
	}
	return Volatile{}, false
}

func isDigit(c byte) bool { return c-'0' <= 9 }
func isHex(c byte) bool   { return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'f' }

// isWord reports whether a byte can be inside a word or number.
func isWord(c byte) bool {
	return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= 0x80
}

func digits(b []byte) bool {
	for _, c := range b {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// number reads a few digits.
func number(b []byte) int {
	n := 0
	for _, c := range b {
		n = n*10 + int(c-'0')
	}
	return n
}

// run returns the end of the digits at i, of which it reads 32 at most.
func run(text []byte, i int) int {
	end := i
	for end < len(text) && isDigit(text[end]) && end-i < 32 {
		end++
	}
	return end
}

// skip passes up to n bytes of set from i on.
func skip(text []byte, i int, set string, n int) int {
	for n > 0 && i < len(text) && bytes.IndexByte([]byte(set), text[i]) >= 0 {
		i++
		n--
	}
	return i
}

// coverAt returns the stretch that offset at lies in or at the end of. Two
// times that differ in one digit differ inside the stretch.
func coverAt(all []Volatile, at int) (Volatile, bool) {
	k := sort.Search(len(all), func(k int) bool { return all[k].End >= at })
	if k < len(all) && all[k].Start <= at {
		return all[k], true
	}
	return Volatile{}, false
}
