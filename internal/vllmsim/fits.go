package vllmsim

// Fits are constants of a real engine, as internal/e2e/probe_speed.py finds them
// and writes them down, in seconds.
type Fits struct {
	Prefill struct {
		Start float64 `json:"seconds"`
		Token float64 `json:"seconds a token"`
		Pair  float64 `json:"seconds a token and token of context"`
	} `json:"prefill quadratic"`
	Decode struct {
		Step     float64 `json:"seconds a step"`
		Sequence float64 `json:"a sequence"`
		Token    float64 `json:"a token of context"`
	} `json:"decode by batch and context"`
}
