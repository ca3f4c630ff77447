package middleware

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// RecordFileOptions are the settings of [OpenRecordFile]. The zero value
// keeps 320 MiB at most.
type RecordFileOptions struct {
	// MaxBytes is the size that a file does not exceed; 0 means 64 MiB, some
	// 50,000 calls of 20 boundaries each.
	MaxBytes int64
	// Keep is the number of older files; 0 means 4, a negative number none.
	Keep int
}

// RecordFile is a file for a [Recorder] that makes way for a new one when it
// is full: path is renamed to path.1, what was path.1 to path.2, and so on, and
// the oldest is removed. To read all, read path.4 first and path last. A write
// is never split between two files. While a full file cannot make way, Write
// returns the error and writes nothing.
//
// A RecordFile is safe for concurrent use, within one process: two processes
// need a path each.
type RecordFile struct {
	path string
	RecordFileOptions

	mu     sync.Mutex
	file   *os.File // nil when a new one could not be opened yet
	size   int64
	closed bool
}

// OpenRecordFile opens the file at path to append to it, or makes it, readable
// by its owner only. A last line that was cut short is removed; a file that ends
// with anything else is refused.
func OpenRecordFile(path string, o RecordFileOptions) (*RecordFile, error) {
	if o.MaxBytes < 0 {
		return nil, fmt.Errorf("record file: MaxBytes is %d; use 0 for the default of 64 MiB, or a number of bytes", o.MaxBytes)
	}
	o.MaxBytes, o.Keep = cmp.Or(o.MaxBytes, 64<<20), cmp.Or(o.Keep, 4)
	f := &RecordFile{path: path, RecordFileOptions: o}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("record file: %w", err)
	}
	return f, nil
}

// Write appends whole lines.
func (f *RecordFile) Write(lines []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, os.ErrClosed
	}
	if f.file == nil { // making way has failed before
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	if f.size > 0 && f.size+int64(len(lines)) > f.MaxBytes {
		if err := f.rotate(); err != nil {
			return 0, err
		}
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(lines)
	f.size += int64(n)
	return n, err
}

// Close closes the file. It is safe to call it again.
func (f *RecordFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return f.shut()
}

func (f *RecordFile) shut() error {
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file, f.size = nil, 0
	return file.Close()
}

func (f *RecordFile) open() error {
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	size, err := wholeLines(file)
	if err == nil {
		err = file.Truncate(size)
	}
	if err == nil {
		_, err = file.Seek(size, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return err
	}
	f.file, f.size = file, size
	return nil
}

// wholeLines returns the length of file without a last line that was cut short.
func wholeLines(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	size := info.Size()
	end := make([]byte, min(size, maxRecordLine))
	if _, err := file.ReadAt(end, size-int64(len(end))); err != nil {
		return 0, err
	}
	cut := end[bytes.LastIndexByte(end, '\n')+1:]
	if n := min(len(cut), len(recordStart)); string(cut[:n]) != recordStart[:n] {
		return 0, fmt.Errorf("%s is not a recording; name another file, or remove it", file.Name())
	}
	return size - int64(len(cut)), nil
}

// rotate makes way for a new file. The older files move up to the first number
// that is free: one that failed halfway, and is tried again, loses none of them.
func (f *RecordFile) rotate() error {
	if err := f.shut(); err != nil {
		return err
	}
	if f.Keep < 0 {
		return os.Remove(f.path)
	}
	free := 1
	for free < f.Keep && exists(f.numbered(free)) {
		free++
	}
	for ; free > 1; free-- {
		if err := os.Rename(f.numbered(free-1), f.numbered(free)); err != nil {
			return err
		}
	}
	return os.Rename(f.path, f.numbered(1))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (f *RecordFile) numbered(i int) string { return fmt.Sprintf("%s.%d", f.path, i) }
