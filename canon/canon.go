package canon

import (
	"fmt"
	"math"
	"sync"
)

// DefaultMaxBytes is the size limit of a body when [Options.MaxBytes] is 0:
// 32 MiB, above what a million tokens and a handful of images take.
const DefaultMaxBytes = 32 << 20

// Options are the settings of a [Canonicalizer]. The zero value works.
type Options struct {
	// Level says how far bodies are respelled. The default is Stable.
	Level Level

	// MaxBytes is the size above which a body is refused with a *SizeError;
	// 0 means DefaultMaxBytes. It cannot be negative or above 2 GiB.
	MaxBytes int

	// IncludeUsage makes streamed chat and text completions ask for the usage
	// chunk (stream_options.include_usage) where the caller did not, because
	// that chunk alone carries the count of cached tokens. Result.UsageAdded
	// tells when that happened; the chunk is then not meant for the caller.
	IncludeUsage bool

	// ReasoningName is the name that the reasoning of assistant messages is
	// sent under: "" keeps the caller's, "reasoning" renames reasoning_content
	// where reasoning is absent. Some vLLM versions read only reasoning, while
	// go-openai knows only reasoning_content.
	ReasoningName string

	// DisableToolsCache switches off the cache of canonical tool lists. The
	// cache is bounded (64 lists, 8 MiB) and never changes a result.
	DisableToolsCache bool
}

// Canonicalizer respells request bodies canonically and hashes their prompts.
// It is safe for concurrent use.
type Canonicalizer struct {
	options Options
	cache   *toolCache // nil when disabled
	scratch sync.Pool  // of *work
}

// New returns a canonicalizer, or an error that says which option is wrong.
func New(o Options) (*Canonicalizer, error) {
	switch {
	case int(o.Level) >= len(levelNames):
		return nil, fmt.Errorf("canon: unknown level %d, want canon.Wire, canon.Stable or canon.Strong", o.Level)
	case o.MaxBytes < 0 || o.MaxBytes > math.MaxInt32:
		return nil, fmt.Errorf("canon: MaxBytes is %d, want 0 for the default of 32 MiB, or up to 2 GiB", o.MaxBytes)
	case o.ReasoningName != "" && o.ReasoningName != "reasoning":
		return nil, fmt.Errorf("canon: ReasoningName is %q, want \"\" or \"reasoning\"", o.ReasoningName)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	c := &Canonicalizer{options: o}
	if !o.DisableToolsCache {
		c.cache = newToolCache()
	}
	c.scratch.New = func() any { return new(work) }
	return c, nil
}

// Canonicalize respells a body at the level Stable with the default options.
// Programs that send requests use a [Canonicalizer], which keeps its scratch
// memory and its tools between calls.
func Canonicalize(api API, body []byte) (Result, error) {
	c, err := New(Options{DisableToolsCache: true})
	if err != nil {
		return Result{}, err
	}
	return c.Canonicalize(api, body)
}

// Level returns the level that the canonicalizer works at.
func (c *Canonicalizer) Level() Level { return c.options.Level }

// MaxBytes returns the size limit in bytes.
func (c *Canonicalizer) MaxBytes() int { return c.options.MaxBytes }

// Canonicalize returns the canonical body and the hashes of its prompt. A body
// that the guard stops, or that is not understood, comes back untouched with a
// diagnosis, and is hashed as raw bytes. The only error is a *SizeError, for a
// body over the limit.
//
// body is neither modified nor kept; Result.Body is body itself when untouched.
func (c *Canonicalizer) Canonicalize(api API, body []byte) (Result, error) {
	if len(body) > c.options.MaxBytes {
		return Result{}, &SizeError{Size: len(body), Max: c.options.MaxBytes}
	}
	if api == Unknown || int(api) >= len(rootRule) {
		return untouched(api, body, Diagnosis{Code: UnknownAPI, Detail: "no rules for this request shape"}), nil
	}
	w := c.scratch.Get().(*work)
	r := w.run(c, api, body)
	if w.release() {
		c.scratch.Put(w)
	}
	return r, nil
}

// untouched is the result for a body that is passed on as it is.
func untouched(api API, body []byte, d Diagnosis) Result {
	var h hasher
	h.reset()
	h.bytes(tagVersion, []byte(keyVersion))
	h.tag(tagVersion, int(api))
	h.bytes(tagRaw, body)
	h.step()
	key := h.state
	return Result{
		API: api, Body: body, Diagnosis: d, Head: key, Root: key,
		Boundaries: []Boundary{{Hash: key, Offset: len(body), Kind: Raw, Message: -1}},
	}
}
