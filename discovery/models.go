package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// modelsLoop reads the models of one place until ctx ends.
func (w *Watcher) modelsLoop(ctx context.Context, p *place) {
	for {
		asked := time.Now()
		models, keep, err := w.readModels(ctx, p)
		if ctx.Err() != nil {
			return
		}
		w.recordModels(p, asked, models, keep, err)
		if !wait(ctx, p.kickModels, w.ModelsInterval, asked) {
			return
		}
	}
}

// recordModels stores one reading and publishes what changed.
func (w *Watcher) recordModels(p *place, asked time.Time, models []string, keep bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.modelsAsked = asked
	defer func() { // for RereadModels, which then finds what is published
		close(w.read)
		w.read = make(chan struct{})
	}()
	if keep {
		models = p.models
	}
	same := sameText(p.modelsErr, err)
	if !same && err != nil {
		w.Logger.Info("discovery: models not read", "endpoint", p.endpoint.ID, "known", len(models), "error", err)
	}
	same = same && (p.models == nil) == (models == nil) && slices.Equal(p.models, models)
	p.models, p.modelsErr = models, err
	if !same && w.places[p.key] == p {
		w.publish()
	}
}

// readModels asks /v1/models once. With an error, keep says that nothing was learnt
// and the last list stands; otherwise the engine answered and would not say, which
// makes it eligible for every model.
func (w *Watcher) readModels(ctx context.Context, p *place) (models []string, keep bool, err error) {
	status, body, err := w.get(ctx, p, "/v1/models", w.Header, w.ModelsTimeout, maxModelsBody)
	switch {
	case errors.Is(err, errTooLong):
		return nil, true, fmt.Errorf("models: the list is longer than %d bytes", maxModelsBody)
	case err != nil:
		return nil, true, fmt.Errorf("models: %w", err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return nil, false, fmt.Errorf("models: status %d: the API key is missing or wrong", status)
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return nil, false, fmt.Errorf("models: status %d: no list of models here", status)
	case status/100 == 3:
		return nil, true, fmt.Errorf("models: status %d, and redirects are not followed", status)
	case status != http.StatusOK:
		return nil, true, fmt.Errorf("models: status %d", status)
	}
	models, err = parseModels(body)
	return models, err != nil, err
}

// parseModels reads the OpenAI list of models. LoRA adapters are entries of their own.
func parseModels(body []byte) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("models: the list is not as expected: %w", err)
	}
	models := make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		if m.ID != "" {
			models = append(models, m.ID)
		}
	}
	if len(models) == 0 {
		// Some servers list nothing while they load. "Serves nothing" would make the
		// endpoint useless for as long as the list is wrong.
		return nil, errors.New("models: the list is empty")
	}
	slices.Sort(models)
	return slices.Compact(models), nil
}
