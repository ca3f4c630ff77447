package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/prefixwise/prefixwise/canon"
	"github.com/prefixwise/prefixwise/internal/vllmsim"
	"github.com/prefixwise/prefixwise/middleware"
)

// anonymize writes the traffic as a recording of middleware.Recorder: when
// requests came, the hashes of their prefixes, and lengths. The hashes are mixed
// with a secret that is forgotten, so that nobody can look for a prompt by
// hashing it.
func anonymize(s *settings, stderr io.Writer) error {
	t, _, err := s.traffic()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(t.requests, func(r *request) bool { return r.outline == nil }) {
		return errNoText
	}
	t.unroll()
	f, err := os.OpenFile(s.anonymize, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("-anonymize: %w", err)
	}
	n, err := writeRecording(f, t)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("-anonymize: %w", err), os.Remove(s.anonymize))
	}
	fmt.Fprintf(stderr, "%d requests of %s are in %s, as hashes and lengths\n", n, t.name, s.anonymize)
	t.complain(stderr)
	return nil
}

var errNoText = errors.New("-anonymize: the traffic has hashes only as it is; it needs no anonymising")

// unroll gives the requests that wait for another one the time at which an idle
// engine would have let them come: a recording has times, and no waiting.
func (t *trace) unroll() {
	for _, r := range t.opening() {
		for ; r.next != nil; r = r.next {
			r.next.at = r.at + time.Duration(r.output)*vllmsim.DefaultDecodeStep + r.think
		}
	}
	slices.SortStableFunc(t.requests, byArrival)
}

// writeRecording writes all requests, which must have an outline.
func writeRecording(w io.Writer, t *trace) (int, error) {
	salt := make([]byte, 32)
	if _, err := rand.Read(salt); err != nil {
		return 0, err
	}
	r, err := middleware.NewRecorder(w, middleware.RecorderOptions{Salt: salt, Queue: len(t.requests) + 1})
	if err != nil {
		return 0, err
	}
	for _, q := range t.requests {
		o := q.outline
		d := middleware.Done{
			Start: time.Unix(0, int64(t.begin+q.at)), API: o.api, Model: o.model, Status: 200,
			Head: o.head, Root: o.root, Session: o.session, Tenant: o.tenant, CacheKey: o.cacheKey,
			PromptTokens: -1, CachedTokens: -1, CompletionTokens: q.output,
		}
		if o.tokens > 0 {
			d.PromptTokens = o.tokens
		}
		for _, b := range o.boundaries {
			d.Boundaries = append(d.Boundaries, canon.Boundary{Hash: b.Hash, Offset: b.Bytes})
		}
		r.Trace().Done(d)
	}
	err = r.Close()
	return int(r.Written()), err
}
