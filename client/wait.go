package client

import (
	"context"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/discovery"
)

// wait waits until there is an endpoint. Its error says what discovery has met.
func (f *fleet) wait(ctx context.Context) error {
	if f.serves(ctx, "") {
		return nil
	}
	if ctx.Err() == nil {
		return discovery.ErrClosed
	}
	if err := f.watcher.Ready(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// serves waits until the router has an endpoint for the model, and returns
// false when ctx ends or the client is closed before.
func (f *fleet) serves(ctx context.Context, model string) bool {
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		if f.router.Untried(&affinity.Request{Model: model}) {
			return true
		}
		select {
		case <-changed:
		case <-f.closed:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// A reread is a reading of all lists of models that calls for a missing model
// have asked for. They share it.
type reread struct {
	begun time.Time
	done  chan struct{} // closed when it is over
}

const (
	// rereadTime bounds how long calls wait for the lists; one engine that
	// hangs must not delay an answer that the others have given.
	rereadTime = 2 * time.Second
	// rereadEvery bounds how often a wrong model name has them read.
	rereadEvery = 10 * time.Second
)

// modelMissing has the lists of models read anew, since the model may have been
// loaded a moment ago, and tells whether it is served now.
func (f *fleet) modelMissing(ctx context.Context, model string) bool {
	f.mu.Lock()
	if time.Since(f.reread.begun) > rereadEvery {
		f.reread = reread{begun: time.Now(), done: make(chan struct{})}
		go f.readModels(f.reread.done)
	}
	done := f.reread.done
	f.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return false
	}
	for _, m := range f.watcher.Members() {
		for _, served := range m.Models {
			if served == model {
				return f.serves(ctx, model) // the router hears of it in a moment
			}
		}
	}
	return false
}

func (f *fleet) readModels(done chan struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(context.Background(), rereadTime)
	defer cancel()
	_ = f.watcher.RereadModels(ctx) // what was read in time is what there is
}
