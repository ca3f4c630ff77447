package vllmsim

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Server is one simulated vLLM instance: an http.Handler with vLLM's paths over
// an Engine that runs in real time. A Server that is no longer needed must be
// closed. All methods are safe for concurrent use.
type Server struct {
	cfg     Config
	driver  *driver
	faults  faults
	mux     *http.ServeMux
	created int64
	serial  atomic.Uint64
	stored  responseStore
}

// NewServer starts an engine with an empty cache.
func NewServer(cfg Config) (*Server, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, driver: newDriver(newEngine(cfg)), created: time.Now().Unix()}
	s.routes()
	return s, nil
}

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.HandleFunc("/ping", s.health)
	s.mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"version": s.cfg.Version})
	})
	s.mux.HandleFunc("GET /load", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]int{"server_load": 0}) // counts only with a flag of vLLM's
	})
	s.mux.HandleFunc("GET /metrics", s.metrics)
	s.mux.HandleFunc("POST /tokenize", s.tokenize)
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("POST /v1/chat/completions", s.chat)
	s.mux.HandleFunc("POST /v1/completions", s.completions)
	s.mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	s.mux.HandleFunc("POST /v1/responses", s.createResponse)
	s.mux.HandleFunc("GET /v1/responses/{id}", s.getResponse)
	s.mux.HandleFunc("POST /v1/messages", s.messages)
	s.mux.HandleFunc("POST /reset_prefix_cache", func(w http.ResponseWriter, _ *http.Request) {
		s.ResetCache()
		w.WriteHeader(http.StatusOK)
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
	})
}

// ServeHTTP answers one request. It panics with http.ErrAbortHandler to close
// the connection where a Fault asks for that.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.cfg.RequestIDHeaders {
		if id := r.Header.Get("X-Request-Id"); id != "" {
			w.Header().Set("X-Request-Id", id)
		}
	}
	guarded := strings.HasPrefix(r.URL.Path, "/v1") || strings.HasPrefix(r.URL.Path, "/v2")
	if s.cfg.APIKey != "" && guarded && r.Method != http.MethodOptions &&
		r.Header.Get("Authorization") != "Bearer "+s.cfg.APIKey {
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.faults.unhealthy() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// Config returns the configuration with its defaults filled in.
func (s *Server) Config() Config { return s.cfg }

// SetFault makes the server misbehave from now on; Fault{} heals it.
func (s *Server) SetFault(f Fault) {
	s.faults.set(f)
	s.driver.do(func(e *Engine) { e.SetSlow(f.Slow) })
	s.driver.freeze(f.Hang)
}

// Drain makes the server behave as vLLM does after SIGTERM with a shutdown
// timeout: what it has accepted is finished, /health stays 200. A new chat gets
// a 500, and a completion an answer without tokens and finish_reason "abort":
// internal/e2e has seen both. There is no way back.
func (s *Server) Drain() { s.faults.drain() }

// Abort ends everything in flight with finish_reason "abort", as vLLM does
// after SIGTERM without a shutdown timeout.
func (s *Server) Abort() { s.driver.abortAll() }

// ResetCache forgets every prefix that no running sequence holds.
func (s *Server) ResetCache() { s.driver.do((*Engine).ResetCache) }

// Counters returns the engine's counters, as /metrics shows them.
func (s *Server) Counters() (c Counters) {
	s.driver.do(func(e *Engine) { c = e.Counters() })
	return c
}

// Load returns how many sequences run and wait at this moment.
func (s *Server) Load() (running, waiting int) {
	s.driver.do(func(e *Engine) { running, waiting = e.Running(), e.Waiting() })
	return running, waiting
}

// Close stops the engine and waits for its goroutine; what is in flight ends
// with finish_reason "abort". Requests that come later are answered 500.
func (s *Server) Close() { s.driver.close() }

// requestID follows vLLM: the caller's X-Request-Id, or one of our own.
func (s *Server) requestID(r *http.Request, prefix string) string {
	if id := r.Header.Get("X-Request-Id"); id != "" {
		return prefix + id
	}
	return fmt.Sprintf("%s%08x%08x", prefix, uint32(mix(uint64(s.created))), s.serial.Add(1))
}

// adapter returns the LoRA adapter that a model name stands for, empty for the
// base model.
func (s *Server) adapter(model string) (string, *apiError) {
	if model == "" || model == s.cfg.Model {
		return "", nil
	}
	for _, a := range s.cfg.Adapters {
		if a == model {
			return a, nil
		}
	}
	return "", unknownModel(model)
}
