package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/examples/internal/program"
	"github.com/prefixwise/prefixwise/examples/internal/progress"
	"github.com/prefixwise/prefixwise/examples/internal/trial"
)

const (
	instances = 4  // of the simulated fleet
	speed     = 20 // of its engines: what counts here is the hit rate
)

func main() { program.Main(run) }

// settings is what the command line and the environment say.
type settings struct {
	endpoints    string // "" for the simulated fleet
	model        string
	trajectories string // "" for the workshop
	sessions     int    // 0 for all that there are
	parallel     int
}

func (s *settings) simulated() bool { return s.endpoints == "" }

func parse(args []string, stderr io.Writer) (s settings, err error) {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, "Usage: agent [-trajectories FILE] [-n N] [-parallel N] [-endpoints LIST] [-model NAME]\n\n",
			"Runs tool-calling agents through the drop-in client, or replays recorded ones.\n",
			"Without -endpoints the fleet is four simulated engines on loopback addresses.\n\n")
		flags.PrintDefaults()
	}
	flags.StringVar(&s.endpoints, "endpoints", os.Getenv("PREFIXWISE_ENDPOINTS"),
		"run on these instances: a comma-separated `list` of URLs, dns+http://… and srv+http://…; the default is that of PREFIXWISE_ENDPOINTS, or the simulated fleet")
	flags.StringVar(&s.model, "model", "", "the model's `name`; the default is the first that the fleet serves")
	flags.StringVar(&s.trajectories, "trajectories", "", "replay the sessions in this `file`, in the format of tau-bench")
	flags.IntVar(&s.sessions, "n", 0, "how many sessions; 0 means all that there are")
	flags.IntVar(&s.parallel, "parallel", 8, "how many sessions at a time")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("agent takes no arguments, but got %q; a file is given with -trajectories", flags.Arg(0))
	case s.sessions < 0:
		err = fmt.Errorf("-n %d is negative; write 0 for all sessions", s.sessions)
	case s.parallel < 1:
		err = fmt.Errorf("-parallel %d leaves nobody to do it; write 1 for one after the other", s.parallel)
	case !s.simulated():
		_, err = discovery.Parse(s.endpoints)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
	}
	return s, err
}

// session is one agent's work: it asks through t until it is done.
type session struct {
	id   string
	live func(ctx context.Context, t *teller) error
}

// sessionsFor returns the sessions that the settings ask for.
func sessionsFor(s settings) ([]session, error) {
	all := workshop(s.simulated())
	if s.trajectories != "" {
		var err error
		if all, err = readTrajectories(s.trajectories); err != nil {
			return nil, err
		}
	}
	if s.sessions > len(all) {
		return nil, fmt.Errorf("-n %d: there are only %d sessions", s.sessions, len(all))
	}
	if s.sessions > 0 {
		all = all[:s.sessions]
	}
	return all, nil
}

// run is the program; it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return program.Usage
	}
	sessions, err := sessionsFor(s)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return program.Usage
	}
	t, err := runAll(ctx, s, sessions, stderr)
	if status := program.Ended(ctx, "agent", err, stderr); status != 0 {
		return status
	}
	if err := t.report(stdout, s, len(sessions)); err != nil {
		fmt.Fprintln(stderr, "agent:", err)
		return program.Failed
	}
	if t.firstError != nil {
		fmt.Fprintln(stderr, "agent: the first error:", t.firstError)
		return program.Failed
	}
	return 0
}

// runAll lives all sessions, several at a time.
func runAll(ctx context.Context, s settings, sessions []session, stderr io.Writer) (*tally, error) {
	spec := s.endpoints
	if s.simulated() {
		fleet := fleettest.New(instances, fleettest.Config{TimeScale: speed})
		defer fleet.Close()
		for i, url := range fleet.URLs() {
			if i > 0 {
				spec += ","
			}
			spec += url
		}
	}
	fleet, err := discovery.Parse(spec)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.WithResolver(fleet), client.WithAPIKey(os.Getenv("OPENAI_API_KEY")))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	model, err := trial.ModelOf(ctx, c, s.model)
	if err != nil {
		return nil, err
	}
	t := new(tally)
	stop := progress.Show(stderr, fmt.Sprintf("%d sessions", len(sessions)), t.status)
	defer stop()
	var g errgroup.Group
	g.SetLimit(s.parallel)
	for _, session := range sessions {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			teller := &teller{client: c, model: model, tally: t, places: map[string]bool{}}
			t.ended(teller, session.live(client.WithSession(ctx, session.id), teller))
			return nil
		})
	}
	return t, g.Wait()
}
