package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT) // as shells report it
)

const usage = `Usage: replay -trace FILE [-policies LIST] [-clients LIST] [-seeds N] [-json] …

Replays traffic on a simulated fleet, in virtual time, with one policy after the
other, and compares them. "go doc ./examples/replay" has the details.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parseSettings(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "replay:", err)
		return exitUsage
	}
	err = replay(ctx, s, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "replay: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(stderr, "replay:", err)
		return exitFailed
	}
	return 0
}

// replay runs every arm and prints the results.
func replay(ctx context.Context, s *settings, stdout, stderr io.Writer) error {
	t, err := s.load()
	if err != nil {
		return err
	}
	infinite := t.infiniteHitRate()
	if !s.json {
		printHead(stdout, s, t, infinite)
	}
	for _, clients := range s.clients {
		for _, p := range s.policies {
			var results []result
			for n := range s.seeds {
				a := arm{policy: p, clients: clients, seed: s.seed + uint64(n)}
				began := time.Now()
				r, err := simulate(ctx, s, t, a)
				if err != nil {
					return err
				}
				if !s.quiet {
					fmt.Fprintf(stderr, "%s, %d clients, placement %d of %d: %.1f s\n", p.name, clients, n+1, s.seeds, time.Since(began).Seconds())
				}
				r.InfiniteHitRate = infinite
				results = append(results, r)
				if s.json {
					if err := json.NewEncoder(stdout).Encode(r); err != nil {
						return err
					}
				}
			}
			if !s.json {
				printRow(stdout, results)
			}
		}
	}
	return nil
}
