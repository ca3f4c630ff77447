package middleware

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// A requestFault is a failure that the caller's request is to blame for: an
// endpoint that was to get it has nothing to do with it, and no other one will
// fare better.
type requestFault struct{ error }

func (e requestFault) Unwrap() error { return e.error }

// blame finds out whether a request that could not be sent had a fault of its own.
// net/http looks at a request's method and headers when it sends it, and reads its
// body then. trailer is what was wrong with its trailer.
func blame(req *http.Request, trailer, err error) error {
	if u, ok := req.Body.(*upload); ok {
		if fault := u.fault.Load(); fault != nil {
			return requestFault{*fault}
		}
	}
	if req.Method != "" && !isToken(req.Method) {
		return requestFault{fmt.Errorf("the method %q has a character that no method may have", req.Method)}
	}
	if fault := cmp.Or(faultOf(req.Header), trailer); fault != nil {
		return requestFault{fault}
	}
	return err
}

// faultOf says why net/http does not send a header, nil if it does. A trailer is to
// be looked at before it is sent: the body may set it while it is read, and
// net/http may go on reading after RoundTrip.
func faultOf(header http.Header) error {
	for name, values := range header {
		if !isToken(name) {
			return fmt.Errorf("the header name %q has a character that no name may have", name)
		}
		for _, v := range values {
			if strings.ContainsFunc(v, isControl) { // not shown: it may be the key
				return fmt.Errorf("the header %s has a control character, such as a line break; trim its value", name)
			}
		}
	}
	return nil
}

// isControl tells of what a field value cannot have: RFC 9110, 5.5.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// isToken tells whether s may be a method or the name of a field: RFC 9110, 5.6.2.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// An upload is a body that is read while it is sent. It notes what is wrong with it.
type upload struct {
	body  io.ReadCloser
	size  int64 // as announced; 0 or less: unknown
	read  int64
	fault atomic.Pointer[error] // net/http may go on reading after RoundTrip
}

// watchUpload makes the body of req an upload.
func watchUpload(req *http.Request) {
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = &upload{body: req.Body, size: req.ContentLength}
	}
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.body.Read(p)
	u.read += int64(n)
	switch {
	case err != nil && err != io.EOF:
		fault := fmt.Errorf("reading the request body: %w", err)
		u.fault.Store(&fault)
	case u.size > 0 && (u.read > u.size || err == io.EOF && u.read < u.size):
		fault := fmt.Errorf("the request body is not as long as its Content-Length of %d bytes", u.size)
		u.fault.Store(&fault)
	}
	return n, err
}

func (u *upload) Close() error { return u.body.Close() }
