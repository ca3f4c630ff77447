// Mcp shows agents that have their tools from an MCP server, whose list comes in
// another order each time. Prompts begin with the tools, so no two sessions have
// a prompt's beginning in common then. Prefixwise puts the tools in one order;
// there is nothing to change but the client.
//
//	c, err := client.New(client.WithEndpoints("http://10.0.0.1:8000", "http://10.0.0.2:8000"))
//	// was: c := openai.NewClient(key)
//
//	go run -C examples/mcp .
//	go run -C examples/mcp . -endpoints http://10.0.0.1:8000,http://10.0.0.2:8000
//
// Each session asks the server for its tools (tools.go), runs the loop of an
// agent (loop.go), and has its own order of the dozen tools (server.go). The
// sessions run twice: with the tools in the order of the list, which
// canon.Wire keeps, and as Prefixwise sends them by default. Without -endpoints
// or PREFIXWISE_ENDPOINTS the fleet is simulated; a simulated model calls tools
// only when it is told to, so there tool_choice does. A real one must have tool
// calling enabled (vLLM: --enable-auto-tool-choice). It is a module of its own,
// so that Prefixwise does not depend on the MCP SDK.
package main

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/examples/internal/trial"
)

const (
	sessions = 24
	parallel = 6
)

func main() { trial.Main("mcp", run) }

func run(ctx context.Context, endpoints string, out io.Writer) error {
	listed, err := trial.Run(ctx, "mcp, tools as listed", endpoints, all, client.WithCanonicalization(canon.Wire))
	if err != nil {
		return err
	}
	fmt.Fprintln(out, listed)
	result, err := trial.Run(ctx, "mcp", endpoints, all)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, result)
	return result.Check()
}

// all lives all sessions, several at a time.
func all(ctx context.Context, t *trial.Trial) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range sessions {
		g.Go(func() error {
			if err := live(ctx, t, i); err != nil {
				return fmt.Errorf("session %d: %w", i, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// live is one session: an agent with a connection of its own to the server.
// t.Client is the Prefixwise client: client.New returns it, as in the first lines
// of this file, and trial.Run calls that for the fleet on the command line.
func live(ctx context.Context, t *trial.Trial, number int) error {
	server, err := connect(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	tools, err := list(ctx, server)
	if err != nil {
		return err
	}
	a := agent{trial: t, server: server, tools: tools, stream: number%2 == 1}
	_, err = a.work(ctx, task(number))
	return err
}
