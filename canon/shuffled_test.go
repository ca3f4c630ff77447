package canon_test

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/internal/trajectory"
)

// Requests of recorded agents with fourteen tools and parallel calls, each
// shuffled anew, get the bytes that the unshuffled ones get, and every step of a
// conversation begins with all the bytes of the step before it.
func TestShuffledTrajectoriesShareTheirPrefix(t *testing.T) {
	all, err := trajectory.Load(filepath.Join("..", "..", "shared", "data"))
	if err != nil {
		t.Skip(err)
	}
	if testing.Short() {
		all = all[:20]
	}
	c := newCanon(t, canon.Options{})
	random := rand.New(rand.NewPCG(5, 6))
	requests, batches, respelled := 0, 0, 0
	var prefix []byte
	for _, conversation := range all {
		prefix = prefix[:0]
		batches += conversation.Batches
		for step := range conversation.Steps() {
			plain := conversation.Plain("m", step)
			shuffled := conversation.Shuffled("m", step, random)
			want, err := c.Canonicalize(canon.Chat, plain)
			require.NoError(t, err)
			got, err := c.Canonicalize(canon.Chat, shuffled)
			require.NoError(t, err)
			if !bytes.Equal(want.Body, got.Body) {
				t.Fatalf("step %d: %s", step, canon.Diff(canon.Chat, plain, shuffled))
			}
			require.Equal(t, want.Root, got.Root)
			require.True(t, bytes.HasPrefix(got.Body, prefix))
			prefix = append(prefix[:0], got.Body[:messagesEnd(got.Body)]...)
			requests++
			if !bytes.Equal(plain, shuffled) {
				respelled++
			}
		}
	}
	t.Logf("%d requests in %d conversations with %d parallel batches", requests, len(all), batches)
	require.Equal(t, requests, respelled, "every request was shuffled")
	require.Greater(t, batches, len(all)/4)
}
