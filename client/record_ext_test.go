package client_test

import (
	"bytes"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/client"
	"github.com/prefixwise/prefixwise/client/fleettest"
	"github.com/prefixwise/prefixwise/middleware"
)

// A recording shows which calls share how much, without their text.
func TestWithRecorder(t *testing.T) {
	fleet := fleettest.New(2, fleettest.Config{Model: "sim", TimeScale: 100})
	defer fleet.Close()
	var recording bytes.Buffer
	recorder, err := middleware.NewRecorder(&recording, middleware.RecorderOptions{})
	require.NoError(t, err)
	c, err := client.New(client.WithEndpoints(fleet.URLs()...), client.WithRecorder(recorder))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Ready(t.Context()))

	ask := question("what is a secret?")
	ask.Model, ask.MaxCompletionTokens = "sim", 4
	first, err := c.CreateChatCompletion(t.Context(), ask)
	require.NoError(t, err)
	ask.Messages = append(ask.Messages, first.Choices[0].Message, openai.ChatCompletionMessage{Role: "user", Content: "go on"})
	_, err = c.CreateChatCompletion(t.Context(), ask)
	require.NoError(t, err)
	_, err = c.ListModels(t.Context())
	require.NoError(t, err)
	require.NoError(t, recorder.Close())

	require.NotContains(t, recording.String(), "secret")
	var turns []middleware.Record
	for record, err := range middleware.ReadRecords(&recording) {
		require.NoError(t, err)
		turns = append(turns, record)
	}
	require.Len(t, turns, 2)
	require.Equal(t, canon.Chat, turns[0].API)
	require.Equal(t, middleware.OutcomeOK, turns[0].Outcome)
	require.Equal(t, turns[0].Root, turns[1].Root)
	require.Equal(t, turns[0].Endpoint, turns[1].Endpoint)
	shared := 0
	for shared < len(turns[0].Boundaries) && turns[0].Boundaries[shared] == turns[1].Boundaries[shared] {
		shared++
	}
	require.NotZero(t, shared)
	require.Greater(t, len(turns[1].Boundaries), shared)

	_, err = client.New(client.WithEndpoints(fleet.URLs()...), client.WithRecorder(nil))
	require.ErrorContains(t, err, "WithRecorder")
}
