// Package program is how the examples begin and end: what an interrupt does, and
// the exit statuses.
package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses; 0 is success.
const (
	Failed      = 1
	Usage       = 2
	Interrupted = 128 + int(syscall.SIGINT) // as shells report it
)

// Main calls run with the command line's arguments and ends the process with the
// status that it returns. An interrupt ends the context, a second one the process
// at once.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Ended says on stderr what has ended the work of the named program, if anything
// but success has, and returns the exit status.
func Ended(ctx context.Context, name string, err error, stderr io.Writer) int {
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: interrupted\n", name)
		return Interrupted
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return Failed
	}
	return 0
}
