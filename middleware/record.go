package middleware

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/prefixwise/prefixwise/affinity"
	"github.com/prefixwise/prefixwise/canon"
)

// Record is what a [Recorder] keeps of one call: when it came, what its prompt
// shares with other prompts, and what became of it. It has hashes and lengths,
// and no text of the prompt or the answer.
//
// A recording has one Record a line, as a JSON object, in the order in which
// the calls ended. [ReadRecords] reads it. Lines of version 1 have these
// members, of which those that are not known are left out:
//
//	v                  1, always the first member
//	time               when the call began, RFC 3339, to the microsecond, in UTC
//	api                "chat", "completions", "embeddings", "responses", "messages"
//	model              the model or adapter that the request names
//	head, root         hashes of 16 hexadecimal digits
//	boundaries         [{"hash", "bytes"}, …]
//	stream             true for a stream
//	session, tenant,
//	cache_key          hashes likewise
//	endpoint           the identity of the endpoint that served the last attempt
//	outcome            "ok", "refused", "failed", "canceled"
//	status             of the HTTP response
//	prompt_tokens, cached_tokens, completion_tokens
//	first_byte_ms, total_ms
type Record struct {
	// Time is when the call began.
	Time  time.Time
	API   canon.API
	Model string
	// Head and Root are the hashes of the prompt's head and of its beginning
	// with the first user message, and Boundaries those of its prefixes, each
	// with the bytes of prompt text up to there; see canon.Result. Of more
	// than 4,096 boundaries the first 4,095 and the last are kept.
	Head, Root uint64
	Boundaries []affinity.Boundary
	Stream     bool
	// Session, Tenant and CacheKey are hashes of the call's hints; 0 means
	// none.
	Session, Tenant, CacheKey uint64
	// Endpoint is the identity of the endpoint that served the last attempt,
	// empty if none was picked.
	Endpoint string
	Outcome  Outcome
	// Status is the HTTP status of the response, 0 if there is none.
	Status int
	// PromptTokens, CachedTokens and CompletionTokens are as the engine
	// reported them, -1 where it did not.
	PromptTokens, CachedTokens, CompletionTokens int
	// FirstByte is the time from the call's begin to the first content of a
	// stream, 0 for other responses; Total that to the call's end.
	FirstByte, Total time.Duration
}

const (
	// recordVersion is that of the lines that a Recorder writes.
	recordVersion = 1
	recordStart   = `{"v":`
	// maxRecordBoundaries keeps a line under 200 KB. The first ones are kept,
	// since two prompts that share them then still show it.
	maxRecordBoundaries = 4096
	// maxRecordName bounds a model's name; engines know none that is longer.
	maxRecordName = 256
)

// recordLine is a Record of version 1 as JSON.
type recordLine struct {
	V                int          `json:"v"`
	Time             time.Time    `json:"time"`
	API              string       `json:"api"`
	Model            string       `json:"model,omitempty"`
	Head             recordHash   `json:"head"`
	Root             recordHash   `json:"root"`
	Boundaries       []recordMark `json:"boundaries,omitempty"`
	Stream           bool         `json:"stream,omitempty"`
	Session          recordHash   `json:"session,omitzero"`
	Tenant           recordHash   `json:"tenant,omitzero"`
	CacheKey         recordHash   `json:"cache_key,omitzero"`
	Endpoint         string       `json:"endpoint,omitempty"`
	Outcome          Outcome      `json:"outcome"`
	Status           int          `json:"status,omitempty"`
	PromptTokens     *int         `json:"prompt_tokens,omitempty"`
	CachedTokens     *int         `json:"cached_tokens,omitempty"`
	CompletionTokens *int         `json:"completion_tokens,omitempty"`
	FirstByteMS      float64      `json:"first_byte_ms,omitempty"`
	TotalMS          float64      `json:"total_ms"`
}

type recordMark struct {
	Hash  recordHash `json:"hash"`
	Bytes int        `json:"bytes"`
}

// recordHash is written as text: JSON's numbers are exact up to 53 bits only.
type recordHash uint64

func (h recordHash) MarshalText() ([]byte, error) {
	return hex.AppendEncode(nil, binary.BigEndian.AppendUint64(nil, uint64(h))), nil
}

func (h *recordHash) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		return fmt.Errorf("%.20q is not a hash of 16 hexadecimal digits", text)
	}
	*h = recordHash(n)
	return nil
}

// MarshalJSON writes the record as a line of a recording, without its end.
func (r Record) MarshalJSON() ([]byte, error) {
	line := recordLine{
		V: recordVersion, Time: r.Time.UTC().Truncate(time.Microsecond), API: r.API.String(),
		Model: r.Model[:min(len(r.Model), maxRecordName)], Head: recordHash(r.Head), Root: recordHash(r.Root),
		Stream: r.Stream, Session: recordHash(r.Session), Tenant: recordHash(r.Tenant), CacheKey: recordHash(r.CacheKey),
		Endpoint: r.Endpoint, Outcome: r.Outcome, Status: r.Status,
		PromptTokens: known(r.PromptTokens), CachedTokens: known(r.CachedTokens), CompletionTokens: known(r.CompletionTokens),
		FirstByteMS: milliseconds(r.FirstByte), TotalMS: milliseconds(r.Total),
	}
	line.Boundaries = make([]recordMark, len(r.Boundaries))
	for i, b := range r.Boundaries {
		line.Boundaries[i] = recordMark{recordHash(b.Hash), b.Bytes}
	}
	return json.Marshal(line)
}

// UnmarshalJSON reads a line of a recording. A line of a version that this
// package does not know is a *RecordVersionError.
func (r *Record) UnmarshalJSON(text []byte) error {
	var line recordLine
	err := json.Unmarshal(text, &line)
	if line.V > recordVersion { // whatever else in it may be new as well
		return &RecordVersionError{Version: line.V}
	}
	if err != nil {
		return err
	}
	api, ok := apiNamed(line.API)
	switch {
	case line.V < 1:
		return errors.New(`no member "v" with the version; is this a recording?`)
	case line.Time.IsZero():
		return errors.New("no time")
	case !ok:
		return fmt.Errorf("api %.20q is not known", line.API)
	}
	switch line.Outcome {
	case OutcomeOK, OutcomeRefused, OutcomeFailed, OutcomeCanceled:
	default:
		return fmt.Errorf("outcome %.20q is not known", line.Outcome)
	}
	for _, n := range []*int{line.PromptTokens, line.CachedTokens, line.CompletionTokens} {
		if n != nil && *n < 0 {
			return fmt.Errorf("%d tokens are less than none", *n)
		}
	}
	first, firstOK := duration(line.FirstByteMS)
	total, totalOK := duration(line.TotalMS)
	if !firstOK || !totalOK {
		return errors.New("first_byte_ms or total_ms is not a time")
	}
	*r = Record{
		Time: line.Time, API: api, Model: line.Model, Head: uint64(line.Head), Root: uint64(line.Root),
		Stream: line.Stream, Session: uint64(line.Session), Tenant: uint64(line.Tenant), CacheKey: uint64(line.CacheKey),
		Endpoint: line.Endpoint, Outcome: line.Outcome, Status: line.Status,
		PromptTokens: orUnknown(line.PromptTokens), CachedTokens: orUnknown(line.CachedTokens), CompletionTokens: orUnknown(line.CompletionTokens),
		FirstByte: first, Total: total,
	}
	at := 0
	for _, b := range line.Boundaries {
		if b.Bytes < at {
			return fmt.Errorf("a boundary at %d bytes follows one at %d", b.Bytes, at)
		}
		at = b.Bytes
		r.Boundaries = append(r.Boundaries, affinity.Boundary{Hash: uint64(b.Hash), Bytes: b.Bytes})
	}
	return nil
}

func apiNamed(name string) (canon.API, bool) {
	for a := canon.Chat; a <= canon.Messages; a++ {
		if a.String() == name {
			return a, true
		}
	}
	return canon.Unknown, false
}

func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

func orUnknown(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// duration reads milliseconds; a call takes less than the 292 years that a
// time.Duration has room for.
func duration(ms float64) (time.Duration, bool) {
	us := math.Round(ms * 1e3)
	if !(us >= 0 && us < math.MaxInt64/1e3) {
		return 0, false
	}
	return time.Duration(us) * time.Microsecond, true
}
