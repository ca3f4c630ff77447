package middleware

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// What an outcome means is decided here and nowhere else: whether another
// attempt may help, who is answerable, and whether the endpoint is to be left
// alone. Statuses are classified by their number, never by the message.

// retryableStatus tells whether an error status is worth another endpoint. A
// 501 is the same everywhere, and so is every other 4xx: 400, 401, 404, 422.
func retryableStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// answerable tells whether the endpoint, or the way to it, is to blame for an
// outcome or to be credited with it; a fault of the request's is not its
// doing, nor is a limit that the caller has set for the whole call, nor an answer of
// another kind.
func answerable(status int, err error) bool {
	if err != nil {
		return !errors.Is(err, ErrTotalTimeout) && !otherKind(err) && !errors.As(err, new(requestFault))
	}
	return status < 400 || retryableStatus(status)
}

// otherKind tells whether an answer is of another kind than was asked for. That is
// the doing of what stands in front of all endpoints, so no other one will fare
// better, and trying costs a whole answer each time.
func otherKind(err error) bool { return errors.Is(err, ErrNotStreamed) || errors.Is(err, ErrStreamed) }

const (
	// drainAside is for how long an engine that aborts is left alone: it is
	// shutting down, and 30 s is what Kubernetes gives a pod for that
	// (terminationGracePeriodSeconds).
	drainAside = 30 * time.Second
	// maxLost is how many attempts of one call may end with a connection that
	// broke while an engine worked on it. A request that crashes engines must
	// not be carried through the fleet (ai-dynamo/dynamo#475).
	maxLost = 2
)

// aside is how long an endpoint is to get nothing new, judging by an outcome.
func aside(h http.Header, status int, err error) time.Duration {
	switch {
	case errors.Is(err, ErrAborted):
		return drainAside
	case err == nil && (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests):
		after, _ := retryAfter(h.Get("Retry-After"))
		return after
	}
	return 0
}

// A connectError is a failure of Transport's to make a connection: nothing was
// sent.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

// beforeSending tells whether err came up before anything of the request was
// sent: in dialling or in the TLS handshake.
func beforeSending(err error) bool {
	var dial *net.OpError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, new(connectError)), errors.As(err, &verify), errors.As(err, &record),
		errors.As(err, &alert), errors.As(err, &authority), errors.As(err, &name):
		return true
	case errors.As(err, &dial) && (dial.Op == "dial" || dial.Op == "proxyconnect"):
		return true
	}
	return handshakeTimeout(err)
}

// handshakeTimeout recognizes an error that net/http does not export. It must
// be an error of time too: an engine may have these words in a message.
func handshakeTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout() && strings.HasSuffix(t.Error(), "net/http: TLS handshake timeout")
}

// connectTimedOut tells whether a failure to connect was one of time.
func connectTimedOut(err error) bool {
	var t net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// connectionLost tells whether the connection broke when the request was
// already sent.
func connectionLost(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrTruncated) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.As(err, &op)
}
