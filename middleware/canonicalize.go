package middleware

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/prefixwise/prefixwise/canon"
)

// CanonicalizeOptions are the settings of [Canonicalize]. The zero value
// rewrites bodies.
type CanonicalizeOptions struct {
	// KeepBody computes the prompt's hashes but sends the body as it came,
	// apart from the caller's extra members. It is the kill switch for
	// rewriting.
	KeepBody bool
	// TenantSalt, if not empty, is the secret of which the cache_salt of each
	// request with Hints.Tenant is made, so that tenants do not share what
	// engines have cached: the HMAC-SHA256 of the tenant's name. The salt is
	// part of the prompt's hash too. Requests without a tenant, and Anthropic-style
	// messages, which have no such field, are not salted.
	TenantSalt []byte
}

// Canonicalize rewrites the JSON body of each request that c understands to
// its canonical bytes, and leaves the prompt's hashes for [Route]. Members of
// Hints.ExtraBody are set first. Other requests (uploads, other paths) pass
// through untouched and unread.
//
// The caller's request is not modified. A body over the size limit of c fails
// with a *canon.SizeError before anything is sent.
func Canonicalize(c *canon.Canonicalizer, o CanonicalizeOptions) Middleware {
	return func(next http.RoundTripper) http.RoundTripper {
		return &canonicalizer{CanonicalizeOptions: o, canon: c, next: next}
	}
}

type canonicalizer struct {
	CanonicalizeOptions
	canon   *canon.Canonicalizer
	next    http.RoundTripper
	buffers sync.Pool // of *[]byte, for bodies as they come
}

// maxBuffer is the largest buffer that is kept for another body.
const maxBuffer = 1 << 20

func (m *canonicalizer) RoundTrip(req *http.Request) (*http.Response, error) {
	req, c, owner := callOf(req)
	resp, err := m.roundTrip(req, c)
	if owner {
		c.finish(resp, err)
	}
	return resp, err
}

func (m *canonicalizer) roundTrip(req *http.Request, c *call) (*http.Response, error) {
	if c.api == canon.Unknown || req.Body == nil || !isJSON(req.Header) {
		return m.next.RoundTrip(req)
	}
	read, err := m.read(req)
	body := read
	if err == nil {
		body, err = withExtra(body, c.hints.ExtraBody)
	}
	if err == nil {
		body, err = withSalt(body, c.api, m.TenantSalt, c.hints.Tenant)
	}
	var result canon.Result
	if err == nil {
		result, err = m.canon.Canonicalize(c.api, body)
	}
	if err != nil {
		return nil, &Error{Phase: PhasePrepare, Err: err}
	}
	if m.KeepBody {
		result.Body, result.UsageAdded = body, false
	}
	m.recycle(read, result.Body)
	c.prompt, c.body = result, result.Body
	out := req.WithContext(req.Context())
	setBody(out, result.Body)
	return m.next.RoundTrip(out)
}

// read reads and closes the body of req. It stops one byte past the limit, so
// that a body of unknown size cannot fill the memory.
func (m *canonicalizer) read(req *http.Request) ([]byte, error) {
	defer req.Body.Close()
	limit := int64(m.canon.MaxBytes())
	if n := req.ContentLength; n > 0 && n <= limit { // 0 is an unknown length in a client's request
		body := m.buffer(int(n))
		return body, readWhole(req, body)
	}
	if req.ContentLength > limit {
		return nil, &canon.SizeError{Size: int(req.ContentLength), Max: int(limit)}
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the request body: %w", err)
	}
	return body, nil
}

// readWhole reads the body of req, which is to be just as long as body: part of it
// would be another request.
func readWhole(req *http.Request, body []byte) error {
	if _, err := io.ReadFull(req.Body, body); err != nil {
		return fmt.Errorf("reading the request body: %w", err)
	}
	if n, _ := io.ReadFull(req.Body, make([]byte, 1)); n > 0 {
		return fmt.Errorf("the request body is longer than its Content-Length of %d bytes", len(body))
	}
	return nil
}

// buffer returns n bytes for a body that is coming, and recycle takes them back
// when what is sent has been made of them, unless it is still the same bytes:
// canon passes on what it does not change.
func (m *canonicalizer) buffer(n int) []byte {
	if b, ok := m.buffers.Get().(*[]byte); ok && cap(*b) >= n {
		return (*b)[:n]
	}
	return make([]byte, n)
}

func (m *canonicalizer) recycle(read, sent []byte) {
	same := len(read) > 0 && len(sent) > 0 && &read[0] == &sent[0]
	if !same && cap(read) <= maxBuffer {
		m.buffers.Put(&read)
	}
}

// withExtra sets the members of extra at the root of body.
func withExtra(body []byte, extra map[string]any) ([]byte, error) {
	if len(extra) == 0 {
		return body, nil
	}
	raw := make(map[string]json.RawMessage, len(extra))
	for name, value := range extra {
		if v, ok := value.(json.RawMessage); ok && len(v) > 0 {
			raw[name] = v // Merge looks whether it is JSON; encoding/json would respell it
			continue
		}
		v, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("extra body member %q cannot be written as JSON: %w", name, err)
		}
		raw[name] = v
	}
	merged, err := canon.Merge(body, raw)
	if err != nil {
		return nil, fmt.Errorf("extra body: %w", err)
	}
	return merged, nil
}

// setBody makes body the body of req, rewindable by net/http.
func setBody(req *http.Request, body []byte) {
	req.ContentLength = int64(len(body))
	req.TransferEncoding = nil
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody()
	if req.Header.Get("Content-Length") != "" {
		req.Header = req.Header.Clone()
		req.Header.Del("Content-Length")
	}
}

func isJSON(h http.Header) bool {
	t := mediaType(h)
	return t == "" || t == "application/json"
}
