package trial

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/examples/internal/program"
)

// Main is the main function of a program: it reads the command line, runs the
// program and ends the process. The exit status is 0, 1 if something failed, 2
// for wrong arguments, and 130 after an interrupt.
func Main(name string, run func(ctx context.Context, endpoints string, out io.Writer) error) {
	program.Main(func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return status(ctx, name, args, run, stdout, stderr)
	})
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
		return program.Usage
	case flags.NArg() > 0:
		err = fmt.Errorf("%s takes no arguments, but got %q", name, flags.Arg(0))
	case *endpoints != "":
		_, err = discovery.Parse(*endpoints)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return program.Usage
	}
	return program.Ended(ctx, name, run(ctx, *endpoints, stdout), stderr)
}
