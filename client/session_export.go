package client

import (
	"encoding/json"
	"errors"
	"fmt"
)

// sessionVersion is that of the exported form. A form that this package cannot
// read any more gets a higher one.
const sessionVersion = 1

// exported is a session as JSON.
type exported struct {
	Version   int               `json:"version"`
	ID        string            `json:"id"`
	Key       string            `json:"key,omitempty"` // when it is not the id
	Placement string            `json:"placement,omitempty"`
	Messages  []json.RawMessage `json:"messages"`
	Results   []json.RawMessage `json:"results,omitempty"` // of the open batch, as far as they are there
	Sent      int               `json:"sent,omitempty"`    // how many messages an engine has seen
}

// MarshalJSON exports the session, so that another process can go on with it:
// see [Client.RestoreSession]. What it exports has the whole conversation in
// it. An answer that is under way is not part of it.
func (s *Session) MarshalJSON() ([]byte, error) {
	s.mu.Lock()
	e := exported{Version: sessionVersion, ID: s.id, Placement: s.placement, Messages: s.transcript.messages}
	if s.key != s.id {
		e.Key = s.key
	}
	for _, r := range s.transcript.results {
		if r != nil {
			e.Results = append(e.Results, r)
		}
	}
	if s.sent != nil && extends(s.transcript.messages, s.sent.messages) {
		e.Sent = len(s.sent.messages)
	}
	s.mu.Unlock()
	if e.Messages == nil {
		e.Messages = []json.RawMessage{}
	}
	return json.Marshal(e)
}

// RestoreSession makes a session of what another one was exported as, in this
// process or in another: its next request prefers the same instance. It takes
// the place of another session of the same id in the client. Data that is not
// an exported session, or of a later version, is an error.
func (c *Client) RestoreSession(data []byte) (*Session, error) {
	const prefix = "prefixwise: session: cannot restore: "
	var e exported
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf(prefix+"%w", err)
	}
	switch {
	case e.Version > sessionVersion:
		return nil, fmt.Errorf(prefix+"version %d is later than %d, the last one that this program knows; update it", e.Version, sessionVersion)
	case e.Version < 1 || e.ID == "":
		return nil, errors.New(prefix + "it is not an exported session: version or id is missing")
	}
	s := c.newSession(e.ID)
	if e.Key != "" {
		s.key = e.Key
	}
	s.placement = e.Placement
	for _, messages := range [][]json.RawMessage{e.Messages, e.Results} {
		if err := s.transcript.add(messages...); err != nil {
			return nil, fmt.Errorf(prefix+"%w", err)
		}
	}
	// Results of an open batch are not among the transcript's messages yet.
	if n := len(s.transcript.messages); e.Sent < 0 || e.Sent > n {
		return nil, fmt.Errorf(prefix+"%d of %d messages cannot have been sent; export the session anew", e.Sent, n)
	}
	if e.Sent > 0 {
		s.sent = &sent{messages: s.transcript.messages[:e.Sent]}
	}
	c.sessions.put(s)
	return s, nil
}
