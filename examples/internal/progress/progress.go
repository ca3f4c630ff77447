// Package progress shows on a terminal that a program is alive.
package progress

import (
	"fmt"
	"io"
	"os"
	"time"
)

// interval is how often the line is written again: often enough to look alive.
const interval = 200 * time.Millisecond

// Show keeps one line of w up to date: the title and what status returns, which
// is called from another goroutine. Where w is not a terminal, it writes the
// title once. The function that it returns ends it and clears the line.
func Show(w io.Writer, title string, status func() string) (stop func()) {
	if !IsTerminal(w) {
		fmt.Fprintln(w, title)
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			fmt.Fprintf(w, "\r\x1b[K%s: %s", title, status()) // K erases to the end of the line
			select {
			case <-ticker.C:
			case <-end:
				fmt.Fprint(w, "\r\x1b[K")
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// IsTerminal tells whether w shows text to a person.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
