// Prefixlint reads a log of LLM requests and says what breaks the prefix that
// they could share, and what it costs.
//
//	go run ./examples/prefixlint requests.jsonl   # a log: one request on each line
//	go run ./examples/prefixlint - < requests.jsonl
//	go run ./examples/prefixlint a.json b.json    # two requests
//	go run ./examples/prefixlint -json requests.jsonl
//
// A line is the body of a request, or an object with the body under "body", as
// in the files of the batch API; "timestamp" beside it puts requests in order,
// and "url" or "path" tells the API. Otherwise the API is told by the members
// of the body. The log may be compressed with gzip. Lines that are no requests are
// left out, and named on standard error. Exit status is 0 when the log could be
// read, whatever it holds, and 2 when it could not or has no request.
//
// Requests are put into groups that most likely come from one program: the same
// model, and most of the tools and of the words of the system text. Each is
// compared with the earlier request that it most likely continues. Shares are
// those of a cache that forgets nothing and holds every earlier request: the
// best that any routing could reach, in bytes of prompt.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/prefixwise/prefixwise/canon"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

const usage = `usage: prefixlint [-json] [-api chat|completions|embeddings|responses|messages] LOG.jsonl
       prefixlint [-json] [-api …] FIRST.json SECOND.json
LOG.jsonl has one request body on each line, or an object with the body under "body"; - reads standard input.
`

// run is the program: it returns the exit status.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	flags := flag.NewFlagSet("prefixlint", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() { fmt.Fprint(errs, usage) }
	asJSON := flags.Bool("json", false, "print JSON")
	api := flags.String("api", "", "the API of all requests; told by their members if not given")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	r := reader{api: canon.Unknown}
	if *api != "" {
		if r.api = apiNamed(*api); r.api == canon.Unknown {
			fmt.Fprintf(errs, "prefixlint: -api is %q, want chat, completions, embeddings, responses or messages\n", *api)
			return 2
		}
	}
	var err error
	switch flags.NArg() {
	case 1:
		err = lintLog(r, flags.Arg(0), in, out, errs, *asJSON)
	case 2:
		err = compare(r, flags.Arg(0), flags.Arg(1), in, out, *asJSON)
	default:
		fmt.Fprint(errs, usage)
		return 2
	}
	if err != nil {
		fmt.Fprintf(errs, "prefixlint: %v\n", err)
		return 2
	}
	return 0
}

func lintLog(r reader, name string, in io.Reader, out, errs io.Writer, asJSON bool) error {
	requests, bad, err := r.log(name, in)
	if err != nil {
		return err
	}
	if bad.lines > 0 {
		fmt.Fprintf(errs, "%s left out of %s:\n", count(bad.lines, "line"), name)
		for _, why := range bad.first {
			fmt.Fprintf(errs, "  %s\n", why)
		}
		if more := bad.lines - len(bad.first); more > 0 {
			fmt.Fprintf(errs, "  … and %s more\n", comma(more))
		}
	}
	report, err := analyse(requests)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(out, report)
	}
	return report.print(out)
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// comparison is what comparing two requests gives.
type comparison struct {
	Divergence canon.Divergence `json:"divergence"`
	First      []canon.Finding  `json:"first"`
	Second     []canon.Finding  `json:"second"`
}

func compare(r reader, first, second string, in io.Reader, out io.Writer, asJSON bool) error {
	a, err := r.file(first, in)
	if err != nil {
		return err
	}
	b, err := r.file(second, in)
	if err != nil {
		return err
	}
	if a.api != b.api {
		return fmt.Errorf("%s is a request of the API %s and %s of %s: they cannot share a prompt", first, a.api, second, b.api)
	}
	c := comparison{
		Divergence: canon.Diff(a.api, a.body, b.body),
		First:      canon.Lint(a.api, a.body),
		Second:     canon.Lint(b.api, b.body),
	}
	if asJSON {
		return printJSON(out, c)
	}
	fmt.Fprintln(out, c.Divergence)
	for _, side := range []struct {
		name     string
		findings []canon.Finding
	}{{first, c.First}, {second, c.Second}} {
		for _, f := range side.findings {
			fmt.Fprintf(out, "%s: %s\n", side.name, f)
		}
	}
	return nil
}
