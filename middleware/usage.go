package middleware

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/prefixwise/prefixwise/canon"
)

// usage is what an engine says that a request cost, in tokens; -1 where it
// does not say.
type usage struct{ prompt, cached, completion int }

var noUsage = usage{-1, -1, -1}

// wireUsage has the names of the chat and completion APIs, of the Responses
// API, and of Anthropic's messages.
type wireUsage struct {
	PromptTokens        *int `json:"prompt_tokens"`
	CompletionTokens    *int `json:"completion_tokens"`
	InputTokens         *int `json:"input_tokens"`
	OutputTokens        *int `json:"output_tokens"`
	CacheRead           *int `json:"cache_read_input_tokens"`
	CacheCreation       *int `json:"cache_creation_input_tokens"`
	PromptTokensDetails struct {
		CachedTokens *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	InputTokensDetails struct {
		CachedTokens *int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
}

func (w *wireUsage) usage() usage {
	u := noUsage
	first := func(to *int, from ...*int) {
		for _, p := range from {
			if p != nil && *p >= 0 {
				*to = *p
				return
			}
		}
	}
	first(&u.prompt, w.PromptTokens, w.InputTokens)
	first(&u.completion, w.CompletionTokens, w.OutputTokens)
	first(&u.cached, w.InputTokensDetails.CachedTokens, w.PromptTokensDetails.CachedTokens, w.CacheRead)
	if w.PromptTokens == nil && u.prompt >= 0 {
		// Anthropic's input_tokens are without what the cache had and what was
		// put into it, and so are vLLM's.
		for _, more := range []*int{w.CacheRead, w.CacheCreation} {
			if more != nil && *more > 0 {
				u.prompt = max(u.prompt, u.prompt+*more) // never over the end of an int
			}
		}
	}
	return u
}

// tellers knows which endpoints have told what came from their caches, in the
// answers of which APIs. Where that is asked for, some versions of vLLM leave
// the number out when it is 0 (0.22, completion/serving.py), so without this
// the calls that hit nothing would be missing from the hit rate. An endpoint
// that has never told it, or not in this API, is not known to mean 0.
type tellers struct {
	mu   sync.Mutex
	apis map[string]uint16 // by endpoint; a bit for each API
}

// maxTellers bounds them; addresses that never come back must not pile up.
const maxTellers = 4096

// complete returns the usage of a complete answer with what it leaves out.
func (t *tellers) complete(endpoint string, api canon.API, u usage) usage {
	if u.prompt < 0 {
		return u
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	told := t.apis[endpoint]
	switch bit := uint16(1) << api; {
	case told&bit != 0:
		u.cached = max(u.cached, 0)
	case u.cached >= 0:
		if t.apis == nil || len(t.apis) >= maxTellers {
			t.apis = map[string]uint16{}
		}
		t.apis[endpoint] = told | bit
	}
	return u
}

// usageIn finds the usage in a whole response body. A quote inside a string is
// always escaped, so the name with its quotes can only be that of a member:
// there is no need to parse the text around it.
func usageIn(body []byte) usage {
	const name = `"usage"`
	i := bytes.LastIndex(body, []byte(name))
	if i < 0 {
		return noUsage
	}
	rest := bytes.TrimLeft(body[i+len(name):], " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return noUsage
	}
	var quick wireUsage
	if _, ok := quick.read(rest[1:], ""); ok {
		return quick.usage()
	}
	var w wireUsage
	if json.NewDecoder(bytes.NewReader(rest[1:])).Decode(&w) != nil {
		return noUsage
	}
	return w.usage()
}

// aborted reports whether a whole response has a choice with finish_reason
// "abort". See usageIn for why this need not parse.
func aborted(body []byte) bool {
	const name = `"finish_reason"`
	for {
		i := bytes.Index(body, []byte(name))
		if i < 0 {
			return false
		}
		body = bytes.TrimLeft(body[i+len(name):], " \t\r\n:")
		if bytes.HasPrefix(body, []byte(`"abort"`)) {
			return true
		}
	}
}
