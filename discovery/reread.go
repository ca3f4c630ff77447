package discovery

import (
	"context"
	"time"
)

// RereadModels has the models of every endpoint read anew, and waits until each
// has been asked after this call and has answered, or ctx ends. Each endpoint is
// asked at most once a second, so the answer may take a little longer than that. It
// returns at once when reading models is disabled. The error is the context's, or
// ErrClosed.
func (w *Watcher) RereadModels(ctx context.Context) error {
	if w.ModelsInterval < 0 {
		return nil
	}
	begun := time.Now()
	w.mu.Lock()
	for _, p := range w.places {
		poke(p.kickModels)
	}
	for {
		read, open := w.read, false
		for _, p := range w.places {
			open = open || p.modelsAsked.Before(begun)
		}
		closed := w.closed
		w.mu.Unlock()
		switch {
		case closed:
			return ErrClosed
		case !open:
			return nil
		}
		select {
		case <-read:
		case <-w.ctx.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		w.mu.Lock()
	}
}
