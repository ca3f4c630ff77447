package trajectory_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/internal/trajectory"
)

const model = "sim-70b"

func load(t testing.TB, most int) []*trajectory.Conversation {
	all, err := trajectory.Load(filepath.Join("..", "..", "..", "shared", "data"))
	if err != nil {
		t.Skip(err)
	}
	return all[:min(most, len(all))]
}

// The same conversations on a fleet of four: spelled in one way, shuffled and
// canonicalized, shuffled and sent as they are. The first two reach the same
// share of cached tokens, the third loses most of it, by session as well.
func TestShuffledTrajectories(t *testing.T) {
	all := load(t, 32)
	random := rand.New(rand.NewPCG(7, 11))
	plain := func(c *trajectory.Conversation, step int) []byte { return c.Plain(model, step) }
	shuffled := func(c *trajectory.Conversation, step int) []byte { return c.Shuffled(model, step, random) }

	even := replay(t, all, canon.Stable, false, plain)
	mended := replay(t, all, canon.Stable, false, shuffled)
	sent := replay(t, all, canon.Wire, false, shuffled)
	pinned := replay(t, all, canon.Wire, true, shuffled)
	t.Logf("requests %d, prompt tokens %d", even.Requests, even.PromptTokens)
	t.Logf("cached: unshuffled               %5.1f %%", 100*even.HitRate())
	t.Logf("cached: shuffled, canonicalized  %5.1f %%", 100*mended.HitRate())
	t.Logf("cached: shuffled, as sent        %5.1f %%", 100*sent.HitRate())
	t.Logf("cached: the same, by session     %5.1f %%", 100*pinned.HitRate())

	require.Equal(t, even.PromptTokens, mended.PromptTokens)
	// Each fleet has ports of its own, by which conversations are placed: which
	// of them share an instance differs, and with it a block here and there.
	require.InDelta(t, even.HitRate(), mended.HitRate(), 0.005)
	require.Greater(t, even.HitRate(), 0.8)
	require.Less(t, sent.HitRate(), even.HitRate()/2)
	require.Less(t, pinned.HitRate(), even.HitRate()/2, "the right place does not help a shuffled prompt")
}

// replay sends all conversations through a client to four instances, a step of
// each in turn, one request at a time, so that the result does not depend on
// the machine.
func replay(t *testing.T, all []*trajectory.Conversation, level canon.Level, sessions bool,
	spell func(*trajectory.Conversation, int) []byte,
) fleettest.Stats {
	fleet := fleettest.New(4, fleettest.Config{Model: model, TimeScale: 10_000, CacheTokens: 400_000})
	defer fleet.Close()
	c, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithCanonicalization(level))
	require.NoError(t, err)
	defer c.Close()
	for step, more := 0, true; more; step++ {
		more = false
		for n, conversation := range all {
			if step < conversation.Steps() {
				more = true
				ctx := t.Context()
				if sessions {
					ctx = client.WithSession(ctx, fmt.Sprint(n))
				}
				post(ctx, t, c, spell(conversation, step))
			}
		}
	}
	return fleettest.Total(fleet.Stats())
}

func post(ctx context.Context, t *testing.T, c *client.Client, body []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BaseURL()+"/chat/completions", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTPClient().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", answer)
}
