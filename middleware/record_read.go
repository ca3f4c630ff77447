package middleware

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// maxRecordLine bounds a line of a recording. A Recorder writes none that is
// longer than 200 KB.
const maxRecordLine = 1 << 20

// RecordError says which line of a recording cannot be read, and why.
type RecordError struct {
	Line int // from 1
	Err  error
}

func (e *RecordError) Error() string { return fmt.Sprintf("recording, line %d: %v", e.Line, e.Err) }

// Unwrap returns why.
func (e *RecordError) Unwrap() error { return e.Err }

// RecordVersionError says that a line was written by a newer version of this
// package, in a form that this one does not know.
type RecordVersionError struct{ Version int }

func (e *RecordVersionError) Error() string {
	return fmt.Sprintf("version %d is newer than %d, which this program reads; update it", e.Version, recordVersion)
}

var errLongRecord = fmt.Errorf("longer than %d bytes; is this a recording?", maxRecordLine)

// ReadRecords yields what a [Recorder] has written, line by line. A line that
// is wrong yields a *RecordError; whoever goes on after it gets the lines that
// follow, except after an error of r or a line over 1 MiB, which end the
// reading. A last line that was cut short is passed over, since a process that
// is killed leaves one; so are empty lines. The iterator reads r once.
func ReadRecords(r io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		lines := bufio.NewReaderSize(r, 64<<10)
		for n := 1; ; n++ {
			line, err := readLine(lines)
			if err != nil && err != io.EOF {
				yield(Record{}, &RecordError{Line: n, Err: err})
				return
			}
			text := bytes.TrimSpace(line)
			cut := err == io.EOF && !json.Valid(text)
			if len(text) > 0 && !cut {
				var record Record
				var failed error
				if err := json.Unmarshal(text, &record); err != nil {
					record, failed = Record{}, &RecordError{Line: n, Err: err}
				}
				if !yield(record, failed) {
					return
				}
			}
			if err == io.EOF {
				return
			}
		}
	}
}

// readLine returns a line, valid until the next one is read. With io.EOF it
// returns what there is of a last line without an end.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(long) > maxRecordLine {
			return nil, errLongRecord
		}
		line, err = r.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}
