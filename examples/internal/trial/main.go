package trial

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/prefixwise/prefixwise/discovery"
)

// Exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT) // as shells report it
)

// Main is the main function of a program: it reads the command line, runs the
// program and ends the process. The exit status is 0, 1 if something failed, 2
// for wrong arguments, and 130 after an interrupt.
func Main(name string, run func(ctx context.Context, endpoints string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	os.Exit(status(ctx, name, os.Args[1:], run, os.Stdout, os.Stderr))
}

func status(ctx context.Context, name string, args []string, run func(context.Context, string, io.Writer) error, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	endpoints := flags.String("endpoints", os.Getenv("PREFIXWISE_ENDPOINTS"),
		"run on these instances: a comma-separated `list` of URLs, dns+http://… and srv+http://…; the default is that of PREFIXWISE_ENDPOINTS, or a simulated fleet")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		err = fmt.Errorf("%s takes no arguments, but got %q", name, flags.Arg(0))
	case *endpoints != "":
		_, err = discovery.Parse(*endpoints)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	err = run(ctx, *endpoints, stdout)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return exitFailed
	}
	return 0
}
