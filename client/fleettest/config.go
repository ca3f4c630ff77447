package fleettest

import (
	"time"

	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

// Config describes the instances of a fleet. The zero value is usable: fields
// that are zero take the default named beside them. The timing constants are
// assumed; they stand for a model of the 70-billion-parameter class on four
// data-centre GPUs.
type Config struct {
	Model    string   // served base model; "sim-70b"
	Adapters []string // LoRA adapters that every instance serves; none
	APIKey   string   // bearer token required under /v1; none

	CacheTokens     int  // KV memory of one instance, tokens; 400,000
	BlockTokens     int  // tokens of one cache block; 16, vLLM's default on GPUs
	MaxModelLen     int  // prompt and output together, tokens; 131,072, or the cache if that is smaller
	MaxSequences    int  // sequences computed at once; 128
	MaxBatchTokens  int  // tokens computed in one step; 4,096
	MaxQueue        int  // sequences, running or waiting, above which requests get a 503; 0: no bound
	NoPrefixCaching bool // every prompt is computed whole

	PrefillTokensPerSecond float64       // uncached prompt tokens an instance computes a second; 12,048 (83 µs each)
	DecodeStep             time.Duration // one step of generation; 14 ms
	TimeScale              float64       // makes instances so many times faster; 1

	OutputTokens          int  // longest answer unless the request asks for less, tokens; 256
	NoPromptTokensDetails bool // usage without prompt_tokens_details, as vLLM without --enable-prompt-tokens-details
	RequestIDHeaders      bool // echo X-Request-Id, as vLLM with --enable-request-id-headers
}

func (c Config) engine(name string) vllmsim.Config {
	return vllmsim.Config{
		Name: name, Model: c.Model, Adapters: c.Adapters, APIKey: c.APIKey,
		CacheTokens: c.CacheTokens, BlockTokens: c.BlockTokens, MaxModelLen: c.MaxModelLen,
		MaxSequences: c.MaxSequences, MaxBatchTokens: c.MaxBatchTokens, MaxQueue: c.MaxQueue,
		NoPrefixCaching:        c.NoPrefixCaching,
		PrefillTokensPerSecond: c.PrefillTokensPerSecond, DecodeStep: c.DecodeStep, TimeScale: c.TimeScale,
		OutputTokens: c.OutputTokens, NoPromptTokensDetails: c.NoPromptTokensDetails,
		RequestIDHeaders: c.RequestIDHeaders,
	}
}

// StreamFault is a way for an answer to go wrong after it has been accepted.
type StreamFault uint8

const (
	StreamOK    StreamFault = iota // no fault
	StreamCut                      // the connection is closed
	StreamError                    // an error frame, then [DONE]; a plain answer becomes a 500
	StreamAbort                    // finish_reason "abort", then [DONE], as from an instance that shuts down
	StreamEmpty                    // nothing but [DONE], as from an engine that fails before the first token; a plain answer becomes a 500
	NoDone                         // the stream is whole but for its [DONE]; plain answers are not affected
)

// Fault is how an instance misbehaves. The zero value is a healthy instance;
// fields may be combined.
type Fault struct {
	// Hang accepts requests and never answers them, while /health still says
	// 200. When it is lifted, the instance goes on from where it stood.
	Hang bool

	// Unhealthy makes /health and /ping answer 503. Requests are served all the
	// same.
	Unhealthy bool

	// Slow makes every step take so many times as long. Values below 1 have no
	// effect.
	Slow float64

	// Status answers requests for inference with this HTTP status and an error
	// body of vLLM's form.
	Status int

	// RetryAfter is the value of the Retry-After header sent with Status. Empty
	// sends none, as vLLM does.
	RetryAfter string

	// Stream spoils answers once AfterTokens tokens of content have been sent: 0
	// is after the chunk that only names the role, -1 before any. An answer that
	// is shorter is spoiled before its last token, a plain answer whole.
	Stream      StreamFault
	AfterTokens int

	// Times is how many requests Status and Stream apply to, counted from
	// SetFault; 0: all until the next SetFault.
	Times int
}

func (f Fault) engine() vllmsim.Fault {
	return vllmsim.Fault{Hang: f.Hang, Unhealthy: f.Unhealthy, Slow: f.Slow, Status: f.Status, RetryAfter: f.RetryAfter,
		Stream: vllmsim.StreamFault(f.Stream), AfterTokens: f.AfterTokens, Times: f.Times}
}
