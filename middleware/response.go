package middleware

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/prefixwise/prefixwise/canon"
)

const (
	// maxErrorBody bounds what is read of an error response; some vLLM
	// versions answered a 4 KB request with 23 MB of validation errors. Such an
	// error has a message once for each kind that it might have been, and cut
	// short it is no JSON, of which go-openai can make no *openai.APIError.
	maxErrorBody = 1 << 20
	// maxPlainBody bounds a plain response that is read whole before it is
	// returned. A longer one is passed on as it comes, unjudged, up to
	// Routing.MaxResponse.
	maxPlainBody = 64 << 20
)

// receive judges a response and returns it with a body for the caller.
func (r *route) receive(resp *http.Response, f *flight) (*http.Response, error) {
	f.describe(resp.Header)
	media := mediaType(resp.Header)
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		resp.Body.Close()
		err := f.fail(PhaseFirstByte, ErrRedirect)
		err.retryable = false
		return nil, err
	case resp.StatusCode >= 400:
		return r.receiveError(resp, f)
	case media == "text/event-stream" && f.unasked():
		resp.Body.Close()
		return nil, f.fail(PhaseFirstByte, ErrStreamed)
	case media == "text/event-stream", f.call.prompt.Stream && (media == "" || strings.HasPrefix(media, "text/")):
		return r.receiveStream(resp, f) // whatever it is called, SDKs read it as one
	case f.call.api != canon.Unknown && (media == "application/json" || media == ""):
		return r.receivePlain(resp, f)
	}
	f.relax()
	f.answer()
	resp.Body = &passing{body: resp.Body, flight: f, left: r.MaxResponse}
	return resp, nil
}

// mediaType returns the media type without its parameters.
func mediaType(h http.Header) string {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// receiveError reads an error response whole. go-openai never closes the body
// of a failed stream, so the lease cannot wait for that.
func (r *route) receiveError(resp *http.Response, f *flight) (*http.Response, error) {
	body, _, err := f.readAll(resp, maxErrorBody)
	if err != nil && len(body) == 0 && f.ctx.Err() != nil {
		resp.Body.Close()
		return nil, f.fail(PhaseBody, err)
	}
	// What there is of an error is worth more than a second error about it.
	resp.Body.Close()
	f.aside = aside(resp.Header, resp.StatusCode, nil)
	f.land(nil)
	f.close()
	setResponseBody(resp, body)
	return resp, nil
}

// receivePlain reads a plain answer whole, so that one that breaks off, or
// that a stopping engine gave up, is an error before the caller has any of it.
func (r *route) receivePlain(resp *http.Response, f *flight) (*http.Response, error) {
	body, whole, err := f.readAll(resp, maxPlainBody)
	if err != nil {
		resp.Body.Close()
		return nil, f.fail(PhaseBody, err)
	}
	if !whole {
		f.answer()
		rest := resp.Body
		resp.Body = &passing{flight: f, left: r.MaxResponse, body: struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), rest), rest}}
		return resp, nil
	}
	resp.Body.Close()
	return r.judgePlain(resp, body, f)
}

// judgePlain judges a plain answer that has been read whole.
func (r *route) judgePlain(resp *http.Response, body []byte, f *flight) (*http.Response, error) {
	events := isEvents(body)
	switch {
	case events && f.unasked():
		return nil, f.fail(PhaseFirstByte, ErrStreamed)
	case len(bytes.TrimSpace(body)) == 0, endsWithConnection(resp) && !events && !json.Valid(body):
		return nil, f.fail(PhaseBody, io.ErrUnexpectedEOF)
	case f.call.prompt.Stream && f.call.api != canon.Embeddings && !events && !reportsError(body):
		return nil, f.fail(PhaseFirstByte, ErrNotStreamed)
	case aborted(body):
		return nil, f.fail(PhaseBody, ErrAborted)
	case f.call.api == canon.Messages && givenUp(body):
		return nil, f.fail(PhaseBody, ErrUnfinished)
	}
	f.use = usageIn(body)
	if f.call.api == canon.Responses {
		r.responses.remember(responseID(body), f.endpoint.ID)
	}
	f.complete(nil)
	f.close()
	if f.call.api == canon.Chat {
		body = mapReasoning(body)
	}
	setResponseBody(resp, body)
	return resp, nil
}

// unasked tells whether a stream is not what was asked for, as far as anybody can
// tell. Engines read other words than true as such, "stream":1 for one.
func (f *flight) unasked() bool {
	var request struct {
		Stream any `json:"stream"`
	}
	return f.plain && json.Unmarshal(f.call.body, &request) == nil && (request.Stream == nil || request.Stream == false)
}

// isEvents tells whether a body is a stream of events, which some gateways call
// application/json, and which SDKs read all the same.
func isEvents(body []byte) bool {
	text := bytes.TrimLeft(body, " \t\r\n")
	return bytes.HasPrefix(text, []byte("data:")) || bytes.HasPrefix(text, []byte("event:")) || bytes.HasPrefix(text, []byte(":"))
}

// endsWithConnection tells whether nothing but its JSON says that a body is whole.
func endsWithConnection(resp *http.Response) bool {
	return resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
}

// reportsError tells whether a plain answer to a request for a stream is an error,
// which go-openai shows as such though the status is 200.
func reportsError(body []byte) bool {
	var answer struct {
		Error json.RawMessage `json:"error"`
	}
	return json.Unmarshal(body, &answer) == nil && present(answer.Error)
}

// readAll reads the body of resp up to limit bytes, and whether that is all.
func (f *flight) readAll(resp *http.Response, limit int) (body []byte, whole bool, err error) {
	size := 4 << 10
	if n := resp.ContentLength; n >= 0 && n < int64(limit) {
		size = int(n) + 1 // room to see the end without growing
	}
	body = make([]byte, 0, size)
	for len(body) < limit {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := f.read(resp.Body, body[len(body):min(cap(body), limit)])
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, true, nil
		}
		if err != nil {
			return body, false, err
		}
	}
	return body, false, nil
}

func setResponseBody(resp *http.Response, body []byte) {
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.TransferEncoding = nil
	if resp.Header.Get("Content-Length") != "" {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
}

// passing is a body that is passed on as it comes and ends the flight.
type passing struct {
	body      io.ReadCloser
	flight    *flight
	delivered int64
	left      int64 // of what may come
	err       error // what it has ended with
}

func (b *passing) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.flight.read(b.body, p)
	if b.left -= int64(n); b.left < 0 {
		n, err = n+int(b.left), ErrResponseTooLarge
	}
	b.delivered += int64(n)
	switch {
	case err == io.EOF:
		b.flight.complete(nil)
		b.flight.close()
	case err != nil:
		err = b.flight.interrupt(err, b.delivered)
	}
	b.err = err
	return n, err
}

func (b *passing) Close() error {
	err := b.body.Close()
	b.flight.complete(b.flight.caller.Err()) // one who cancels may close it first
	b.flight.close()
	return err
}
