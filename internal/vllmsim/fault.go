package vllmsim

import "sync"

// StreamFault is a way for an answer to go wrong after it has been accepted.
type StreamFault uint8

const (
	StreamOK    StreamFault = iota
	StreamCut               // the connection is closed
	StreamError             // an error frame, then [DONE]; a plain answer becomes a 500
	StreamAbort             // finish_reason "abort", then [DONE], as from an engine that shuts down
	StreamEmpty             // nothing but [DONE], as some versions do when the engine fails before the first token; a plain answer becomes a 500
	NoDone                  // the answer is whole but [DONE] is missing; plain answers are not affected
)

// Fault is how a server misbehaves. The zero value is a healthy one.
type Fault struct {
	// Hang freezes the engine: requests are accepted and nothing is ever
	// answered, while /health still says 200. What was running goes on from
	// where it stood when the fault is lifted.
	Hang bool

	// Unhealthy makes /health and /ping answer 503, as those of a vLLM whose
	// engine has died. Requests are served all the same.
	Unhealthy bool

	// Slow makes every step take so many times as long; below 1: no effect.
	Slow float64

	// Status answers inference requests with this HTTP status (400 to 599)
	// and an error body instead of serving them. 0: no effect.
	Status int

	// RetryAfter is sent as the Retry-After header with Status when not empty.
	RetryAfter string

	// Stream spoils answers after AfterTokens tokens of content: 0 is after the
	// chunk that only names the role, -1 before any. An answer that is shorter
	// is spoiled before its last token. Plain answers have no such point; they
	// are spoiled whole.
	Stream      StreamFault
	AfterTokens int

	// Times is how many requests Status and Stream apply to, those that come
	// first after SetFault; 0: all until the next SetFault.
	Times int
}

// faults hands each request its share of the current Fault.
type faults struct {
	mu       sync.Mutex
	current  Fault
	left     int // requests that Status and Stream still apply to
	draining bool
}

func (f *faults) set(x Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current, f.left = x, x.Times
}

func (f *faults) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.draining = true
}

func (f *faults) unhealthy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current.Unhealthy
}

// take returns what a new inference request meets.
func (f *faults) take() (fault Fault, draining bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.current
	if x.Status == 0 && x.Stream == StreamOK {
		return x, f.draining
	}
	if x.Times > 0 {
		if f.left == 0 {
			x.Status, x.Stream = 0, StreamOK
			return x, f.draining
		}
		f.left--
	}
	return x, f.draining
}
