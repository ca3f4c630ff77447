package fleettest

import (
	"net/http"
	"sync"
)

// gate counts the requests inside a handler, so that an instance is gone only
// when the last of them has returned: http.Server.Close does not wait for them.
type gate struct {
	http.Handler

	mu     sync.Mutex
	inside int
	closed bool
	empty  chan struct{} // closed when the gate is and nobody is inside
}

func newGate(h http.Handler) *gate { return &gate{Handler: h, empty: make(chan struct{})} }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		panic(http.ErrAbortHandler) // a connection that is being cut
	}
	g.inside++
	g.mu.Unlock()
	defer g.leave()
	g.Handler.ServeHTTP(w, r)
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

// close lets nobody in any more and waits until all have left.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	if g.inside == 0 {
		close(g.empty)
	}
	g.mu.Unlock()
	<-g.empty
}
