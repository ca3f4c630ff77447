package middleware

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/prefixwise/prefixwise/canon"
)

// A response of the Responses API lives in the memory of the engine that made
// it, so whatever names it must go there.

// UnknownResponseError says that a request names a response that this client
// has not seen being made, in a fleet with more than one endpoint.
type UnknownResponseError struct{ ID string }

func (e *UnknownResponseError) Error() string {
	return fmt.Sprintf("response %q was not made through this client (or too long ago), so the endpoint that holds it is not known; "+
		"send the whole conversation as input instead of previous_response_id", e.ID)
}

// maxResponses bounds how many responses are remembered: at 100 bytes each,
// 1.6 MB.
const maxResponses = 16 << 10

// responses remembers which endpoint made which response, the newest ones.
type responses struct {
	mu     sync.Mutex
	places map[string]string
	order  []string // a ring; next is the oldest
	next   int
}

func (r *responses) remember(id, endpoint string) {
	if id == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places == nil {
		r.places = map[string]string{}
	}
	if _, known := r.places[id]; !known {
		if len(r.order) < maxResponses {
			r.order = append(r.order, id)
		} else {
			delete(r.places, r.order[r.next])
			r.order[r.next] = id
			r.next = (r.next + 1) % maxResponses
		}
	}
	r.places[id] = endpoint
}

func (r *responses) place(id string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	endpoint, ok := r.places[id]
	return endpoint, ok
}

// responseNamed returns the id of the response that a request needs, or "".
func responseNamed(c *call, path string) string {
	if c.api == canon.Responses {
		return c.prompt.PreviousResponseID
	}
	_, rest, ok := strings.Cut(path, "/responses/")
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, "/")
	if id == "compact" || id == "input_tokens" { // operations, not ids
		return ""
	}
	return id
}

// responseID finds the id of the response in a plain answer, or in the first
// event of a stream, of the Responses API.
func responseID(body []byte) string {
	if !bytes.Contains(body, []byte(`"id"`)) {
		return ""
	}
	var r struct {
		ID       string `json:"id"`
		Object   string `json:"object"`
		Response struct {
			ID string `json:"id"`
		} `json:"response"`
	}
	if json.Unmarshal(body, &r) != nil {
		return ""
	}
	if r.Response.ID != "" {
		return r.Response.ID
	}
	return r.ID
}
