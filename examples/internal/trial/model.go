package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prefixwise/prefixwise/client"
)

// readyTimeout is how long the fleet may take to show a sign of life.
const readyTimeout = 15 * time.Second

// ModelOf waits for the fleet and returns the model to ask for: the one of that
// name, or the first that the fleet serves where there is none.
func ModelOf(ctx context.Context, c *client.Client, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		return "", fmt.Errorf("no instance is ready: %w", err)
	}
	if name != "" {
		return name, nil
	}
	models, err := c.ListModels(ctx)
	if err != nil {
		return "", fmt.Errorf("the fleet does not say what it serves, so the model must be named: %w", err)
	}
	if len(models.Models) == 0 {
		return "", errors.New("the fleet serves no model")
	}
	return models.Models[0].ID, nil
}
