package canon

import (
	"bytes"
)

// isoDateAt reads 2026-03-01 or 2026/03/01 at i and returns its end.
func isoDateAt(text []byte, i int) int {
	if i+10 > len(text) || !digits(text[i:i+4]) || !digits(text[i+5:i+7]) || !digits(text[i+8:i+10]) {
		return 0
	}
	sep := text[i+4]
	year, month, day := number(text[i:i+4]), number(text[i+5:i+7]), number(text[i+8:i+10])
	if sep != '-' && sep != '/' || text[i+7] != sep || year < 1900 || year > 2100 || month < 1 || month > 12 || day < 1 || day > 31 {
		return 0
	}
	if end := i + 10; end == len(text) || text[end] == 'T' || !isWord(text[end]) && text[end] != '-' {
		return end
	}
	return 0
}

// clockAt reads 14:05, 14:05:09.123Z or 2:05 PM at i and returns its end.
func clockAt(text []byte, i int) int {
	j := i
	for j < len(text) && j < i+2 && isDigit(text[j]) {
		j++
	}
	if j == i || number(text[i:j]) > 23 {
		return 0
	}
	fields := 0
	for fields < 2 && j+3 <= len(text) && text[j] == ':' && digits(text[j+1:j+3]) && number(text[j+1:j+3]) < 60 {
		j += 3
		fields++
	}
	if fields == 0 || j < len(text) && (isDigit(text[j]) || text[j] == ':') {
		return 0
	}
	if fields == 2 && j+1 < len(text) && (text[j] == '.' || text[j] == ',') && isDigit(text[j+1]) {
		for j++; j < len(text) && isDigit(text[j]); j++ {
		}
	}
	switch {
	case j < len(text) && text[j] == 'Z':
		j++
	case j+3 <= len(text) && (text[j] == '+' || text[j] == '-') && digits(text[j+1:j+3]):
		j += 3
		if j+3 <= len(text) && text[j] == ':' && digits(text[j+1:j+3]) {
			j += 3
		} else if j+2 <= len(text) && digits(text[j:j+2]) {
			j += 2
		}
	default:
		at := j
		if at < len(text) && text[at] == ' ' {
			at++
		}
		if at+2 <= len(text) && (text[at]|0x20 == 'a' || text[at]|0x20 == 'p') && text[at+1]|0x20 == 'm' {
			j = at + 2
		}
	}
	if j < len(text) && isWord(text[j]) {
		return 0
	}
	return j
}

var months = [...]string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}

// monthWord reports whether a word is a month or its three-letter form.
func monthWord(word []byte) bool {
	if len(word) < 3 || len(word) > 9 {
		return false
	}
	lower := bytes.ToLower(word)
	for _, m := range months {
		if string(lower) == m || string(lower) == m[:3] {
			return true
		}
	}
	return false
}

var weekdays = [...]string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// weekdayWord reports whether a word is a day of the week or its three-letter
// form. It changes with the date that it precedes.
func weekdayWord(word []byte) bool {
	if len(word) < 3 || len(word) > 9 {
		return false
	}
	lower := bytes.ToLower(word)
	for _, d := range weekdays {
		if string(lower) == d || string(lower) == d[:3] {
			return true
		}
	}
	return false
}

// wordyDateAt reads a date that opens with a word, text[i:word]: a month, or a
// day of the week with a date or a time after it.
func wordyDateAt(text []byte, i, word int) int {
	if !weekdayWord(text[i:word]) {
		return monthDayYear(text, i, word)
	}
	at := skip(text, word, " ,.", 2)
	if at == word || at == len(text) {
		return 0
	}
	if !isDigit(text[at]) {
		end := at
		for end < len(text) && isWord(text[end]) && end-at < 10 {
			end++
		}
		return monthDayYear(text, at, end)
	}
	return max(isoDateAt(text, at), dayMonthYear(text, at), clockAt(text, at))
}

// monthDayYear reads "March 1, 2026" at i, or "Mar 1 14:05:09 UTC 2026" as date(1)
// prints it; the month is text[i:word].
func monthDayYear(text []byte, i, word int) int {
	if !monthWord(text[i:word]) {
		return 0
	}
	j := skip(text, word, " .", 2)
	day := run(text, j)
	if day == j || day-j > 2 {
		return 0
	}
	j = skip(text, skip(text, day, "stndrh", 2), " ,", 2)
	if clock := clockAt(text, j); clock > 0 {
		j = skip(text, clock, " ", 1)
		zone := j
		for zone < len(text) && zone-j < 5 && text[zone]-'A' < 26 {
			zone++
		}
		j = skip(text, zone, " ", 1)
	}
	return yearAt(text, j)
}

// dayMonthYear reads "1 March 2026" at i.
func dayMonthYear(text []byte, i int) int {
	day := run(text, i)
	if day-i > 2 {
		return 0
	}
	j := skip(text, day, " ", 1)
	end := j
	for end < len(text) && isWord(text[end]) && end-j < 10 {
		end++
	}
	if j == day || !monthWord(text[j:end]) {
		return 0
	}
	return yearAt(text, skip(text, end, " ,.", 2))
}

func yearAt(text []byte, i int) int {
	end := run(text, i)
	if end-i != 4 || end < len(text) && isWord(text[end]) {
		return 0
	}
	if y := number(text[i:end]); y < 1900 || y > 2100 {
		return 0
	}
	return end
}

// epochAt reads a time in seconds or milliseconds since 1970, from 2017 to
// 2033: other numbers of that length are rarely times.
func epochAt(text []byte, i int) int {
	end := run(text, i)
	if n := end - i; n != 10 && n != 13 || text[i] != '1' || text[i+1] < '5' || end < len(text) && isWord(text[end]) {
		return 0
	}
	if end+1 < len(text) && text[end] == '.' && isDigit(text[end+1]) {
		end = run(text, end+1)
	}
	return end
}

func uuidAt(text []byte, i int) int {
	const form = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh"
	if i+len(form) > len(text) {
		return 0
	}
	for k := range len(form) {
		if c := text[i+k]; form[k] == '-' && c != '-' || form[k] == 'h' && !isHex(c) {
			return 0
		}
	}
	if end := i + len(form); end == len(text) || !isWord(text[end]) {
		return end
	}
	return 0
}

// nonceAt reads a random value after a name that ends at i: "cch=a1b2c",
// "nonce: 9f86d081". Such a value is hexadecimal, of five digits or more, with
// letters and numerals mixed, or of sixteen and more; it returns where the
// value is.
func nonceAt(text []byte, i int) (start, end int) {
	j := i
	if j >= len(text) || text[j] != '=' && text[j] != ':' {
		return 0, 0
	}
	j = skip(text, skip(text, j+1, " ", 1), `"'`, 1)
	letter, digit := false, false
	end = j
	for end < len(text) && isHex(text[end]) && end-j < 129 {
		letter = letter || !isDigit(text[end])
		digit = digit || isDigit(text[end])
		end++
	}
	if end < len(text) && isWord(text[end]) || end-j < 5 || !digit || !letter && end-j < 16 {
		return 0, 0
	}
	return j, end
}

// countAt reads a number that something says is left: "1234</x> left",
// "12 messages remaining".
func countAt(text []byte, i int) int {
	j := i
	for j < len(text) && j-i < 24 && (isDigit(text[j]) || text[j] == ',' && j+1 < len(text) && isDigit(text[j+1])) {
		j++
	}
	if j < len(text) && isWord(text[j]) {
		return 0
	}
	end := j
	window := text[j:min(j+24, len(text))]
	if k := bytes.IndexAny(window, ".;\n<"); k >= 0 {
		window = window[:k]
	}
	words := 0
	for _, w := range bytes.Fields(window) {
		if string(w) == "left" || string(w) == "remaining" {
			return end
		}
		if words++; words == 2 {
			break
		}
	}
	return 0
}
