package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/sashabaranov/go-openai"
)

// replayTokens bounds the answers of a replay: nobody reads them.
const replayTokens = 32

// trajectory is one recorded session.
type trajectory struct {
	TaskID   int                            `json:"task_id"`
	Trial    int                            `json:"trial"`
	Messages []openai.ChatCompletionMessage `json:"traj"`
}

func readTrajectories(file string) ([]session, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var recorded []trajectory
	if err := json.Unmarshal(data, &recorded); err != nil {
		return nil, fmt.Errorf(`%s is not an array of objects with messages in "traj": %w`, file, err)
	}
	sessions := make([]session, 0, len(recorded))
	for i, r := range recorded {
		if r.requests() == 0 {
			return nil, fmt.Errorf("%s: trajectory %d has no answer of an assistant to ask for", file, i)
		}
		sessions = append(sessions, session{id: fmt.Sprintf("%d-%d-%d", i, r.TaskID, r.Trial), live: r.replay})
	}
	return sessions, nil
}

func (r trajectory) requests() int {
	n := 0
	for i, m := range r.Messages {
		if i > 0 && m.Role == openai.ChatMessageRoleAssistant {
			n++
		}
	}
	return n
}

// replay asks for every answer of the assistant again, with the history that the
// assistant had.
func (r trajectory) replay(ctx context.Context, t *teller) error {
	for i, m := range r.Messages {
		if i == 0 || m.Role != openai.ChatMessageRoleAssistant {
			continue
		}
		if _, err := t.ask(ctx, t.client.CreateChatCompletion, r.Messages[:i], openai.ChatCompletionRequest{Messages: r.Messages[:i], MaxCompletionTokens: replayTokens}); err != nil {
			return err
		}
	}
	return nil
}
