package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"time"

	"github.com/prefixwise/prefixwise/discovery"
)

// reply is an endpoint's answer to one question.
type reply struct {
	status int
	body   []byte
	header http.Header
	closes bool // it said that it closes the connection
	traced bool // whether the connection was a used one is known,
	reused bool // and it was
	asked  time.Time
	took   time.Duration
}

// maxReply bounds what is read: a page of vLLM's metrics has some 60 KB.
const maxReply = 4 << 20

func (k *checkup) get(ctx context.Context, ep discovery.Endpoint, path string, header http.Header) (reply, error) {
	return k.ask(ctx, ep, http.MethodGet, path, nil, header)
}

func (k *checkup) ask(ctx context.Context, ep discovery.Endpoint, method, path string, body []byte, header http.Header) (reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("no answer within %v", checkTimeout))
	defer cancel()
	var r reply
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { r.traced, r.reused = true, i.Reused },
	})
	u := *ep.URL
	u.Path += path
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	req.Header.Set("User-Agent", "prefixwise-check")
	r.asked = time.Now()
	resp, err := k.transport.For(ep).RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return r, err
	}
	r.took = time.Since(r.asked)
	// A transport of the caller's may not tie its bodies to the context.
	stop := context.AfterFunc(ctx, func() { resp.Body.Close() })
	defer resp.Body.Close()
	defer stop()
	r.status, r.header, r.closes = resp.StatusCode, resp.Header, resp.Close
	r.body, err = io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if len(r.body) > maxReply {
		err = errors.New("the answer is too long")
	}
	return r, err
}

// maxSkew is far above what the header's whole seconds and a slow answer make.
const maxSkew = 5 * time.Second

// skew is how far the endpoint's clock is ahead, 0 when it does not say.
func (r reply) skew() time.Duration {
	date, err := http.ParseTime(r.header.Get("Date"))
	if err != nil {
		return 0
	}
	// The header was written during the exchange and cut to its second.
	if early := r.asked.Add(-time.Second); date.Before(early) {
		return date.Sub(early)
	}
	if late := r.asked.Add(r.took); date.After(late) {
		return date.Sub(late)
	}
	return 0
}

func aheadOf(skew time.Duration) string {
	if skew > 0 {
		return "ahead of"
	}
	return "behind"
}

// keepAlive is the idle timeout that a server announces, 0 if it does not.
func (r reply) keepAlive() time.Duration {
	for part := range bytes.SplitSeq([]byte(r.header.Get("Keep-Alive")), []byte(",")) {
		if value, ok := bytes.CutPrefix(bytes.TrimSpace(part), []byte("timeout=")); ok {
			if n, err := strconv.Atoi(string(value)); err == nil && n > 0 && n < 1<<20 {
				return time.Duration(n) * time.Second
			}
		}
	}
	return 0
}
