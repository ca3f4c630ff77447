package main

import (
	"testing"

	"github.com/openai/openai-go"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/examples/internal/chats/chatstest"
)

func TestExample(t *testing.T) {
	chatstest.Run(t, chatstest.SDK{Connect: connect, API: canon.Chat, Refused: func(t *testing.T, status int, err error) {
		var refused *openai.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, status, refused.StatusCode)
	}})
}
