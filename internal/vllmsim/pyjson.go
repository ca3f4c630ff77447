package vllmsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
)

// dumpJSON parses a JSON text as Python's json.loads does and appends what
// json.dumps(value, ensure_ascii=False) prints: the order of members is kept
// (of equal names the last value at the first place), separators are ", " and
// ": ", strings have only the escapes they need, integers keep their digits and
// other numbers become the shortest decimal of the same float64. This is what
// a chat template's tojson filter shows to the model.
func dumpJSON(dst []byte, raw []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	dst, err := dumpValue(dst, dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("vllmsim: text after the JSON value")
	}
	return dst, nil
}

// maxDepth is where Python's parser gives up by default, about.
const maxDepth = 1000

func dumpValue(dst []byte, dec *json.Decoder, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errors.New("vllmsim: JSON nested too deeply")
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, t), nil
	case json.Number:
		return append(dst, pythonNumber(string(t))...), nil
	case string:
		return appendPythonString(dst, t), nil
	case json.Delim:
		if t == '[' {
			return dumpArray(dst, dec, depth+1)
		}
		return dumpObject(dst, dec, depth+1)
	}
	return nil, errors.New("vllmsim: unknown JSON token")
}

func dumpArray(dst []byte, dec *json.Decoder, depth int) ([]byte, error) {
	dst = append(dst, '[')
	for first := true; dec.More(); first = false {
		if !first {
			dst = append(dst, ", "...)
		}
		var err error
		if dst, err = dumpValue(dst, dec, depth); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return append(dst, ']'), err
}

func dumpObject(dst []byte, dec *json.Decoder, depth int) ([]byte, error) {
	var names []string
	values := map[string][]byte{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string) // the decoder lets nothing else through
		v, err := dumpValue(nil, dec, depth)
		if err != nil {
			return nil, err
		}
		if _, ok := values[name]; !ok {
			names = append(names, name)
		}
		values[name] = v
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendPythonString(dst, name)
		dst = append(dst, ": "...)
		dst = append(dst, values[name]...)
	}
	return append(dst, '}'), nil
}

// pythonNumber prints a JSON number as Python prints the int or float it reads.
func pythonNumber(lexeme string) string {
	if !strings.ContainsAny(lexeme, ".eE") {
		if lexeme == "-0" {
			return "0"
		}
		return lexeme
	}
	f, _ := strconv.ParseFloat(lexeme, 64)
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	// Python's repr: exponent form below 1e-4 and from 1e16 on.
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func appendPythonString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			if c < 0x20 {
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			} else {
				dst = append(dst, c)
			}
		}
	}
	return append(dst, '"')
}
