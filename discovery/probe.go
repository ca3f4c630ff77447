package discovery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// probesAtOnce bounds the burst of probes when a large fleet appears.
	probesAtOnce = 32
	// slotTime is how long a probe counts against that bound. A hung endpoint gives
	// its slot back and goes on waiting alone, so that others are not delayed by its
	// timeout. There is never more than one probe of a kind for one place.
	slotTime = 100 * time.Millisecond

	maxHealthBody = 4 << 10 // drained so that a kept connection can be used again
	maxModelsBody = 1 << 20 // some thousands of adapters
)

// placeKey is what a probe sees of an endpoint. The ranks of one engine share a
// place: their health is one.
type placeKey struct {
	url  string
	addr netip.AddrPort
}

func keyOf(e Endpoint) placeKey { return placeKey{e.URL.String(), e.Addr} }

// place is something that is probed. What is below mu's line is guarded by
// Watcher.mu.
type place struct {
	key        placeKey
	endpoint   Endpoint // one of those here, for its URL and address
	transport  http.RoundTripper
	cancel     context.CancelFunc
	kickModels chan struct{}
	// kickMetrics ends a long wait when the engine is back.
	kickMetrics chan struct{}

	verdict   verdict
	since     time.Time
	healthErr error
	models    []string
	modelsErr error
	// modelsAsked is when the reading began that models and modelsErr are from.
	modelsAsked time.Time
}

// member is e with what is known about its place.
func (p *place) member(e Endpoint) Member {
	return Member{
		Endpoint: e, Health: p.verdict.health, Models: p.models,
		HealthErr: p.healthErr, ModelsErr: p.modelsErr, Since: p.since, Refuses: refuses(p.healthErr),
	}
}

// ready: see Watcher.Ready.
func (p *place) ready(unprobed bool) bool {
	return p.verdict.health == Healthy || p.verdict.health == Unknown && (unprobed || p.verdict.silent)
}

// startPlace begins to probe a place. An endpoint that moved brings the models it had:
// the list is read again in a moment, and until then the old one is the better guess.
// Its health is not carried over. The caller holds mu.
func (w *Watcher) startPlace(key placeKey, e Endpoint, before Member) *place {
	ctx, cancel := context.WithCancel(w.ctx)
	p := &place{
		key: key, endpoint: e, cancel: cancel, kickModels: make(chan struct{}, 1), kickMetrics: make(chan struct{}, 1),
		since: time.Now(), models: before.Models,
	}
	w.places[key] = p
	metrics := w.OnMetrics != nil && w.MetricsInterval >= 0
	if w.HealthInterval < 0 && w.ModelsInterval < 0 && !metrics {
		return p
	}
	p.transport = w.Transport(e)
	if w.HealthInterval >= 0 {
		w.wg.Go(func() { w.healthLoop(ctx, p) })
	}
	if w.ModelsInterval >= 0 {
		w.wg.Go(func() { w.modelsLoop(ctx, p) })
	}
	if metrics {
		w.wg.Go(func() { w.metricsLoop(ctx, p) })
	}
	return p
}

// healthLoop probes the health of one place until ctx ends.
func (w *Watcher) healthLoop(ctx context.Context, p *place) {
	for {
		asked := time.Now()
		o, err := w.probeHealth(ctx, p)
		if ctx.Err() != nil {
			return
		}
		v := w.recordHealth(p, o, err)
		next := w.HealthInterval
		// A refused connection or a 503 is confirmed soon; a late answer is not, as
		// asking a busy engine more often does not make it faster.
		if v.leaning() && !errors.Is(err, context.DeadlineExceeded) {
			next = min(next, soon)
		}
		if !wait(ctx, nil, next, asked) {
			return
		}
	}
}

// recordHealth counts one probe and publishes what changed.
func (w *Watcher) recordHealth(p *place, o outcome, err error) verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := p.verdict
	p.verdict = was.after(o, w.FailAfter, w.PassAfter)
	sameErr := sameText(p.healthErr, err)
	p.healthErr = err
	if p.verdict.silent && !was.silent {
		w.Logger.Info("discovery: the endpoint has no health path, its health stays unknown",
			"endpoint", p.endpoint.ID, "path", w.HealthPath, "error", err)
	}
	if p.verdict.health != was.health {
		p.since = time.Now()
		switch p.verdict.health {
		case Unhealthy:
			w.Logger.Warn("discovery: endpoint is unhealthy", "endpoint", p.endpoint.ID, "failures", p.verdict.fails, "error", err)
		case Healthy:
			w.Logger.Info("discovery: endpoint is healthy", "endpoint", p.endpoint.ID)
			if was.health == Unhealthy {
				poke(p.kickModels) // it may have come back with other models
				poke(p.kickMetrics)
			}
		}
	}
	if w.places[p.key] == p && (p.verdict.health != was.health || p.verdict.silent != was.silent || !sameErr) {
		w.publish()
	}
	return p.verdict
}

// refuses reports whether a probe failed before it had a connection.
func refuses(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// sameText compares errors by what they say: each probe makes a new one.
func sameText(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Error() == b.Error()
}

// probeHealth asks the health path once.
func (w *Watcher) probeHealth(ctx context.Context, p *place) (outcome, error) {
	status, _, err := w.get(ctx, p, w.HealthPath, nil, w.HealthTimeout, maxHealthBody)
	switch {
	case err != nil:
		return failed, fmt.Errorf("health: %w", err)
	case status == http.StatusOK:
		return passed, nil
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented,
		status == http.StatusUnauthorized, status == http.StatusForbidden:
		return silent, fmt.Errorf("health: %w (status %d)", ErrNoHealthPath, status)
	case status/100 == 3:
		return failed, fmt.Errorf("health: status %d, and redirects are not followed", status)
	default:
		return failed, fmt.Errorf("health: status %d", status)
	}
}

// get sends one probe, without following redirects, and returns at most limit bytes
// of the answer; errTooLong beside them says that there are more.
func (w *Watcher) get(ctx context.Context, p *place, path string, header http.Header, timeout time.Duration, limit int64) (int, []byte, error) {
	release, err := w.slot(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u := *p.endpoint.URL
	u.Path += path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, nil, err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "prefixwise-discovery")
	}
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return 0, nil, probeError(ctx, err, timeout)
	}
	// Closing at the end of ctx frees the read below also where a transport of
	// the user's does not tie its bodies to the request's context.
	stop := context.AfterFunc(ctx, func() { resp.Body.Close() })
	defer resp.Body.Close()
	defer stop()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if int64(len(body)) > limit {
		return resp.StatusCode, body[:limit], errTooLong
	}
	if err != nil {
		return 0, nil, probeError(ctx, err, timeout)
	}
	return resp.StatusCode, body, nil
}

var errTooLong = errors.New("the answer is too long")

// probeError makes a timeout say how long it was.
func probeError(ctx context.Context, err error, timeout time.Duration) error {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("no answer within %v: %w", timeout, context.DeadlineExceeded)
	}
	return err
}

// slot waits for leave to start a probe. The slot goes back when the probe ends, or
// after slotTime.
func (w *Watcher) slot(ctx context.Context) (release func(), err error) {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var once sync.Once
	free := func() { once.Do(func() { <-w.slots }) }
	t := time.AfterFunc(slotTime, free)
	return func() { t.Stop(); free() }, nil
}

// plainTransport is the default of Options.Transport.
func plainTransport(allowLinkLocal bool) func(Endpoint) http.RoundTripper {
	return func(e Endpoint) http.RoundTripper {
		dialer := &net.Dialer{}
		if !allowLinkLocal {
			dialer.Control = DialControl
		}
		address := e.DialAddress()
		return &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, address)
			},
			TLSClientConfig: &tls.Config{ServerName: strings.TrimSuffix(e.URL.Hostname(), ".")},
			// uvicorn closes idle connections after 5 s, the very interval of the
			// probes; and a new connection shows that the engine accepts some.
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
}
