package vllmsim

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// sampling holds the members that all generating APIs share and that this
// package heeds. Others are ignored, as by vLLM.
type sampling struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions *struct {
		IncludeUsage    bool `json:"include_usage"`
		ContinuousUsage bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	N                   *int     `json:"n"`
	MaxTokens           *int     `json:"max_tokens"`
	MaxCompletionTokens *int     `json:"max_completion_tokens"`
	MinTokens           int      `json:"min_tokens"`
	IgnoreEOS           bool     `json:"ignore_eos"`
	Temperature         *float64 `json:"temperature"` // checked, and otherwise without effect
	Seed                *int64   `json:"seed"`
	CacheSalt           *string  `json:"cache_salt"`
	PromptLogprobs      *int     `json:"prompt_logprobs"`
}

// limit is the bound of the output that the request names, nil if none.
func (p *sampling) limit() *int {
	if p.MaxCompletionTokens != nil {
		return p.MaxCompletionTokens
	}
	return p.MaxTokens
}

func (p *sampling) includeUsage() bool {
	return p.StreamOptions != nil && p.StreamOptions.IncludeUsage
}

func (p *sampling) continuousUsage() bool {
	return p.includeUsage() && p.StreamOptions.ContinuousUsage
}

// job is an accepted request: what to compute and what to say.
type job struct {
	id          string
	model       string
	created     int64
	fingerprint *string
	stream      bool
	prompts     int
	choices     []choice
	work        []Request
	fault       Fault
	refuse      bool // draining
	rendered    bool // the prompt comes from the chat template
	details     bool // report cached tokens
}

// choice is one answer.
type choice struct {
	prompt int // which of the prompts
	tokens int // length of that prompt
	seed   uint64
	length int
	finish string
	call   *toolCall // nil: a text
}

// text returns the tokens from up to to of the answer.
func (c *choice) text(from, to int) string {
	if c.call != nil {
		return strings.Join(c.call.pieces[from:to], "")
	}
	return answerText(c.seed, from, to)
}

// decode reads a JSON body; the error is for the caller of the API.
func decode(w http.ResponseWriter, r *http.Request, dst any) *apiError {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
	if err != nil {
		return invalidBody("body", "There was an error reading the body: %v", err)
	}
	if !utf8.Valid(body) {
		return invalidBody("body", "There was an error parsing the body: it is not UTF-8")
	}
	if err := json.Unmarshal(body, dst); err != nil {
		where := "body"
		var mistyped *json.UnmarshalTypeError
		if errors.As(err, &mistyped) && mistyped.Field != "" {
			// encoding/json puts the name of an embedded struct into the path.
			where += "." + strings.TrimPrefix(mistyped.Field, "sampling.")
		}
		return invalidBody(where, "%v", err)
	}
	return nil
}

// newJob checks the parameters and plans the answers to each prompt.
func (s *Server) newJob(id string, p *sampling, prompts [][]uint32) (*job, *apiError) {
	adapter, e := s.adapter(p.Model)
	if e != nil {
		return nil, e
	}
	n := 1
	if p.N != nil {
		n = *p.N
	}
	limit := p.limit()
	switch {
	case n < 1 || n > 128:
		return nil, badRequest("n must be at least 1, got %d.", n)
	case limit != nil && *limit < 1:
		return nil, badParam("max_tokens", "max_tokens must be at least 1, got %d.", *limit)
	case limit != nil && *limit > s.cfg.MaxModelLen:
		return nil, badParam("max_tokens", "max_tokens=%d cannot be greater than max_model_len=%d. Please request fewer output tokens.", *limit, s.cfg.MaxModelLen)
	case p.Temperature != nil && *p.Temperature < 0:
		return nil, badParam("temperature", "temperature must be non-negative, got %v.", *p.Temperature)
	case p.StreamOptions != nil && !p.Stream:
		return nil, badParam("stream_options", "Stream options can only be defined when `stream=True`.")
	case p.CacheSalt != nil && *p.CacheSalt == "":
		return nil, badParam("cache_salt", "Parameter 'cache_salt' must be a non-empty string if provided.")
	case p.CacheSalt != nil && (len(*p.CacheSalt) > 128 || strings.ContainsAny(*p.CacheSalt, "@/\\\x00")):
		return nil, badParam("cache_salt", "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\', or NUL.")
	}
	j := &job{id: id, model: p.Model, created: time.Now().Unix(), stream: p.Stream, prompts: len(prompts),
		details: !s.cfg.NoPromptTokensDetails}
	if j.model == "" {
		j.model = s.cfg.Model
	}
	if s.cfg.Name != "" {
		j.fingerprint = &s.cfg.Name
	}
	salt := ""
	if p.CacheSalt != nil {
		salt = *p.CacheSalt
	}
	for i, tokens := range prompts {
		room := s.cfg.MaxModelLen - len(tokens)
		if len(tokens) == 0 {
			return nil, badRequest("The prompt is empty.")
		}
		if room < 1 || limit != nil && *limit > room {
			return nil, tooLong(s.cfg.MaxModelLen)
		}
		hashes := BlockHashes(nil, ChainRoot(adapter, salt), tokens, s.cfg.BlockTokens)
		for k := range n {
			c := s.plan(tokens, p, limit, room, k)
			c.prompt = i
			work := Request{PromptTokens: len(tokens), OutputTokens: c.length, Hashes: hashes,
				NoCacheRead: p.PromptLogprobs != nil, Cut: c.finish == "length"}
			if s.cfg.ReuseOutput {
				work.Hashes, work.Adapter, work.CacheSalt = nil, adapter, salt
				work.Tokens = appendTokens(append([]uint32(nil), tokens...), answerText(c.seed, 0, c.length))
			}
			j.choices = append(j.choices, c)
			j.work = append(j.work, work)
		}
	}
	return j, nil
}

// plan draws an answer and cuts it where the request says.
func (s *Server) plan(tokens []uint32, p *sampling, limit *int, room, k int) choice {
	var seed int64
	if p.Seed != nil {
		seed = *p.Seed
	}
	c := choice{tokens: len(tokens), seed: answerSeed(tokens, seed, k), finish: "stop"}
	bound := room
	if limit != nil {
		bound = *limit
	}
	c.length = max(answerLength(c.seed, s.cfg.OutputTokens), p.MinTokens)
	switch {
	case p.IgnoreEOS && limit != nil:
		c.length = bound + 1
	case p.IgnoreEOS:
		c.length = max(c.length, s.cfg.OutputTokens) // not the rest of the context: nobody waits for that
	}
	if c.length > bound {
		c.length, c.finish = bound, "length"
	}
	return c
}

// start hands the job to the engine. A nil call without an error means that the
// answer is an abort.
func (s *Server) start(j *job) (*call, *apiError) {
	j.fault, j.refuse = s.faults.take()
	if j.fault.Status != 0 {
		return nil, statusError(j.fault.Status)
	}
	if j.refuse && j.rendered {
		return nil, shuttingDown()
	}
	if j.refuse {
		return nil, nil
	}
	c, err := s.driver.submit(j.work)
	var length *LengthError
	switch {
	case errors.Is(err, ErrQueueFull):
		return nil, busy()
	case errors.As(err, &length):
		return nil, tooLong(length.MaxModelLen)
	case err != nil:
		return nil, internalError()
	}
	return c, nil
}

// usage is the OpenAI form of what a job has consumed so far.
type usage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	TotalTokens      int           `json:"total_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	Details          *usageDetails `json:"prompt_tokens_details,omitempty"`
}

type usageDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

func (j *job) usage(now []progress) usage {
	var u usage
	cached := 0
	for i, c := range j.choices {
		if i == 0 || c.prompt != j.choices[i-1].prompt { // a prompt counts once, however many answers it has
			u.PromptTokens += c.tokens
			cached += now[i].cached
		}
		u.CompletionTokens += now[i].generated
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	if j.details {
		u.Details = &usageDetails{cached}
	}
	return u
}
