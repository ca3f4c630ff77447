package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/examples/internal/chats/chatstest"
)

func TestExample(t *testing.T) {
	chatstest.Run(t, chatstest.SDK{Connect: connect, API: canon.Chat, Hidden: true, Refused: func(t *testing.T, status int, err error) {
		// Its errors have no type of their own; they are text with the status.
		require.ErrorContains(t, err, fmt.Sprintf("unexpected status code: %d", status))
	}})
}
