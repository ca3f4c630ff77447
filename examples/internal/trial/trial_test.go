package trial

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/examples/internal/program"
)

func TestStatus(t *testing.T) {
	t.Setenv("PREFIXWISE_ENDPOINTS", "")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	failing := errors.New("the program's own words")
	for _, tt := range []struct {
		name, args, says string
		ctx              context.Context
		err              error
		want             int
	}{
		{name: "well", want: 0},
		{name: "help", args: "-h", says: "-endpoints list", want: 0},
		{name: "failed", err: failing, says: failing.Error(), want: program.Failed},
		{name: "unknown flag", args: "-nope", says: "-nope", want: program.Usage},
		{name: "argument", args: "file", says: `"file"`, want: program.Usage},
		{name: "endpoints", args: "-endpoints ftp://host", says: "ftp", want: program.Usage},
		{name: "interrupted", ctx: over, err: context.Canceled, says: "interrupted", want: program.Interrupted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := tt.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			var stdout, stderr strings.Builder
			got := status(ctx, "test", strings.Fields(tt.args), func(context.Context, string, io.Writer) error { return tt.err }, &stdout, &stderr)
			require.Equal(t, tt.want, got)
			require.Empty(t, stdout.String())
			require.Contains(t, stderr.String(), tt.says)
		})
	}
}

// ask sends the same chat a few times.
func ask(ctx context.Context, t *Trial) error {
	request := openai.ChatCompletionRequest{Model: t.Model, MaxCompletionTokens: 2,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: strings.Repeat("again ", 200)}}}
	for range 4 {
		t.Sending(request)
		if _, err := t.Client.CreateChatCompletion(ctx, request); err != nil {
			return err
		}
	}
	return nil
}

func TestRunSimulated(t *testing.T) {
	r, err := Run(t.Context(), "test", "", ask)
	require.NoError(t, err)
	require.NoError(t, r.Check())
	require.Equal(t, 4, r.Requests)
	require.InDelta(t, r.Ideal, r.HitRate, 1e-9) // one after the other, on one instance
	require.Contains(t, r.String(), "4 SIMULATED engines")
	require.Contains(t, r.String(), "ratio 100.0 %")
}

func TestRunOnEndpoints(t *testing.T) {
	fleet := fleettest.New(2, fleettest.Config{APIKey: "secret", NoPromptTokensDetails: true})
	defer fleet.Close()
	t.Setenv("OPENAI_API_KEY", "secret")
	r, err := Run(t.Context(), "test", strings.Join(fleet.URLs(), ","), ask)
	require.NoError(t, err)
	require.Contains(t, r.String(), "2 instances")
	require.ErrorContains(t, r.Check(), "--enable-prompt-tokens-details")
}

func TestRunSaysWhatIsWrong(t *testing.T) {
	_, err := Run(t.Context(), "test", "ftp://host", ask)
	require.ErrorContains(t, err, "ftp")
	_, err = Run(t.Context(), "test", "", ask, client.WithRetries(-1))
	require.ErrorContains(t, err, "WithRetries")
	_, err = Run(t.Context(), "test", "", func(_ context.Context, t *Trial) error {
		t.Sending(openai.ChatCompletionRequest{Messages: []openai.ChatCompletionMessage{{Role: "nobody"}}})
		return nil
	})
	require.ErrorContains(t, err, "nobody")
}

func TestCheck(t *testing.T) {
	good := Result{HitRate: .8, Ideal: .9, Stats: client.Stats{Reporting: 1, Endpoints: []client.EndpointStats{{}}}}
	require.NoError(t, good.Check())
	low := good
	low.HitRate = .7
	require.ErrorContains(t, low.Check(), "less than the 80 %")
	busy := good
	busy.Stats.Endpoints = []client.EndpointStats{{InFlight: 1}}
	require.ErrorContains(t, busy.Check(), "in flight")
}
