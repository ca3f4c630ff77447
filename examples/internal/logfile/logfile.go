// Package logfile opens logs of requests as people have them: plain or with gzip,
// with or without a byte order mark, or on standard input.
package logfile

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
)

// MaxLine bounds a line of a log: a request with a million tokens of text has
// some 4 MB.
const MaxLine = 64 << 20

// File is an open log.
type File struct {
	io.Reader
	close func() error
}

// Close closes the file.
func (f *File) Close() error { return f.close() }

// Open opens a file; "-" is stdin, which Close leaves open. Errors name the file.
func Open(name string, stdin io.Reader) (*File, error) {
	if name == "-" {
		in, err := Decode(stdin)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return &File{in, func() error { return nil }}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	in, err := Decode(file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &File{in, file.Close}, nil
}

// Decode returns the text of a log: in, without a byte order mark, and
// uncompressed if it begins as gzip does.
func Decode(in io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	if begin, _ := buffered.Peek(2); string(begin) == "\x1f\x8b" {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, err
		}
		buffered = bufio.NewReaderSize(z, 64<<10)
	}
	if begin, _ := buffered.Peek(3); string(begin) == "\xef\xbb\xbf" {
		buffered.Discard(3)
	}
	return buffered, nil // an error of Peek comes again with Read
}
