package main

import (
	"testing"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/examples/internal/chats/chatstest"
)

func TestExample(t *testing.T) {
	chatstest.Run(t, chatstest.SDK{Connect: connect, API: canon.Chat, Refused: func(t *testing.T, status int, err error) {
		var refused *openai.APIError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, status, refused.HTTPStatusCode)
	}})
}
