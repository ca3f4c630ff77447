package vllmsim

import (
	"encoding/json"
	"net/http"
)

type modelCard struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	OwnedBy     string       `json:"owned_by"`
	Root        string       `json:"root"`
	Parent      *string      `json:"parent"`
	MaxModelLen *int         `json:"max_model_len"`
	Permission  []permission `json:"permission"`
}

type permission struct {
	ID            string `json:"id"`
	Object        string `json:"object"`
	Created       int64  `json:"created"`
	AllowSampling bool   `json:"allow_sampling"`
	AllowView     bool   `json:"allow_view"`
	Organization  string `json:"organization"`
}

// models lists the base model and the adapters. An adapter's card has the path
// it was loaded from as root and no length, as vLLM's.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	card := func(id string) modelCard {
		return modelCard{ID: id, Object: "model", Created: s.created, OwnedBy: "vllm", Root: id,
			Permission: []permission{{ID: "modelperm-" + id, Object: "model_permission", Created: s.created,
				AllowSampling: true, AllowView: true, Organization: "*"}}}
	}
	base := card(s.cfg.Model)
	base.MaxModelLen = &s.cfg.MaxModelLen
	cards := []modelCard{base}
	for _, a := range s.cfg.Adapters {
		c := card(a)
		c.Root, c.Parent = "adapters/"+a, &s.cfg.Model
		cards = append(cards, c)
	}
	writeJSON(w, http.StatusOK, struct {
		Object string      `json:"object"`
		Data   []modelCard `json:"data"`
	}{"list", cards})
}

// tokenize shows the tokens of a text or of a conversation.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var req struct {
		conversation
		Model  string          `json:"model"`
		Prompt json.RawMessage `json:"prompt"`
	}
	e := decode(w, r, &req)
	if e == nil {
		_, e = s.adapter(req.Model)
	}
	if e != nil {
		writeError(w, e)
		return
	}
	var tokens []uint32
	var text string
	var err error
	if req.Messages != nil {
		tokens, err = req.render()
	} else if err = json.Unmarshal(req.Prompt, &text); err == nil {
		tokens = Tokenize(text)
	}
	if err != nil {
		writeError(w, badRequest("%v", err))
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"count": len(tokens), "max_model_len": s.cfg.MaxModelLen,
		"tokens": tokens, "token_strs": nil})
}
