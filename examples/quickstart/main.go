package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/examples/internal/program"
)

const usage = `Usage: quickstart [-json] [-endpoints LIST] [-model NAME] [-debug ADDRESS]
       [-record FILE]

Sends the same traffic through a fleet with random and then with prefix routing,
and compares them. Without -endpoints the fleet is four simulated engines on
loopback addresses, and it all takes 45 seconds.

The traffic: 40 % chats with a shared system prompt, 30 % tool-calling agents,
30 % questions about long documents; 1,200 requests in 20 seconds. The cache of
a simulated engine holds a quarter of what the traffic would fill.
"go doc ./examples/quickstart" has the details.

`

func main() {
	program.Main(func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return run(ctx, args, standard, stdout, stderr)
	})
}

// settings is what the command line and the environment say.
type settings struct {
	endpoints string // "" for the simulated fleet
	model     string
	json      bool
	debug     string // address of the client's page; "" for none
	record    string
}

func parse(args []string, stderr io.Writer) (s settings, err error) {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&s.endpoints, "endpoints", os.Getenv("PREFIXWISE_ENDPOINTS"),
		"run on these instances: a comma-separated `list` of URLs, dns+http://… and srv+http://…; the default is that of PREFIXWISE_ENDPOINTS, or the simulated fleet")
	flags.StringVar(&s.model, "model", "", "the model's `name`; the default is the first that the fleet serves")
	flags.BoolVar(&s.json, "json", false, "print one JSON object a line instead of the table")
	flags.StringVar(&s.debug, "debug", "", "serve the client's page at this `address` while the traffic runs, such as localhost:6060")
	flags.StringVar(&s.record, "record", "", "write the requests of each policy to `file`-policy.jsonl, for examples/replay")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("quickstart takes no arguments, but got %q; instances are given with -endpoints", flags.Arg(0))
	case s.endpoints != "":
		_, err = discovery.Parse(s.endpoints)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
	}
	return s, err
}

// run is the program; it returns the exit status.
func run(ctx context.Context, args []string, m mix, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return program.Usage
	}
	page, err := servePage(s.debug, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "quickstart:", err)
		return program.Failed
	}
	defer page.close()
	var results []result
	for _, policy := range []client.Strategy{client.Random, client.Affinity} {
		r, err := runArm(ctx, s, m, policy, page, stderr)
		if status := program.Ended(ctx, "quickstart", err, stderr); status != 0 {
			return status
		}
		results = append(results, r)
	}
	if s.json {
		err = writeJSON(stdout, results)
	} else {
		err = writeTable(stdout, s, m, results)
	}
	if err != nil {
		fmt.Fprintln(stderr, "quickstart:", err)
		return program.Failed
	}
	status := 0
	for _, r := range results {
		if r.Errors > 0 {
			fmt.Fprintf(stderr, "quickstart: %s: %d requests failed, the first with: %v\n", r.Policy, r.Errors, r.firstError)
			status = program.Failed
		}
	}
	return status
}
