package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prefixwise/prefixwise/client"
)

// page serves the debug page of whichever client is at work. A nil page serves
// nothing.
type page struct {
	server *http.Server
	served chan struct{} // closed when the server has stopped
	now    atomic.Pointer[http.Handler]
}

// servePage listens at an address, or nowhere when it is empty, and says where.
func servePage(address string, stderr io.Writer) (*page, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the page cannot be served: %w", err)
	}
	p := &page{served: make(chan struct{})}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(p.served)
		p.server.Serve(l) // ends with the Close in close
	}()
	fmt.Fprintf(stderr, "the client's page, while this runs: http://%s/?refresh=2\n", l.Addr())
	return p, nil
}

func (p *page) show(c *client.Client) {
	if p != nil {
		h := c.DebugHandler()
		p.now.Store(&h)
	}
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := p.now.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	http.Error(w, "the first client is being made; try again", http.StatusServiceUnavailable)
}

func (p *page) close() {
	if p != nil {
		p.server.Close()
		<-p.served
	}
}
