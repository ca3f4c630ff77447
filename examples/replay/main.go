package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/prefixwise/prefixwise/examples/internal/program"
)

const usage = `Usage: replay -trace FILE [-policies LIST] [-clients LIST] [-seeds N] [-json] …

Replays traffic with one policy after the other and compares them: on a simulated
fleet in virtual time or, with -endpoints, on a real one in real time.
"go doc ./examples/replay" has the details.

`

func main() { program.Main(run) }

// run is the program; it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parseSettings(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "replay:", err)
		return program.Usage
	}
	out := &output{to: stdout}
	if err = replay(ctx, s, out, stderr); err == nil {
		err = out.err
	}
	return program.Ended(ctx, "replay", err, stderr)
}

// output keeps the first error of what is written to, so that a full disk is not
// taken for a short table.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.to.Write(b)
	o.err = err
	return n, err
}
