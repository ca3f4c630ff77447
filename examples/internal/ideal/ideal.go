// Package ideal works out what a prefix cache without bounds would give for a
// sequence of chat requests: the best that any routing can reach.
//
// It is arithmetic, not a run. Each request is turned into tokens by the
// simulator's chat template and tokenizer and cut into blocks of 16, and every
// leading block that an earlier request had as well counts as cached. On the
// simulated fleet that is exactly what one engine with endless memory would
// report. For real engines it is an estimate, as their tokenizers differ: the
// rate is close, the number of tokens is not.
package ideal

import (
	"encoding/json"
	"fmt"

	"github.com/sashabaranov/go-openai"

	"github.com/prefixwise/prefixwise/internal/vllmsim"
)

// Cache remembers every block it has seen. The zero value is empty and ready.
// It is not safe for concurrent use: the order of requests matters.
type Cache struct {
	seen                       map[uint64]struct{}
	promptTokens, cachedTokens int
}

// Add puts a request through the cache.
func (c *Cache) Add(request openai.ChatCompletionRequest) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("ideal: %w", err)
	}
	tokens, err := vllmsim.ChatPrompt(body)
	if err != nil {
		return fmt.Errorf("ideal: %w", err)
	}
	blocks := vllmsim.BlockHashes(nil, vllmsim.ChainRoot("", ""), tokens, vllmsim.DefaultBlockTokens)
	held := 0
	for held < len(blocks) && c.has(blocks[held]) {
		held++
	}
	// The last token is always computed: it is what the answer starts from.
	held = min(held, (len(tokens)-1)/vllmsim.DefaultBlockTokens)
	if c.seen == nil {
		c.seen = make(map[uint64]struct{})
	}
	for _, b := range blocks {
		c.seen[b] = struct{}{}
	}
	c.promptTokens += len(tokens)
	c.cachedTokens += held * vllmsim.DefaultBlockTokens
	return nil
}

func (c *Cache) has(block uint64) bool {
	_, ok := c.seen[block]
	return ok
}

// HitRate is the share of prompt tokens that would have come from the cache, 0
// to 1; 0 without any.
func (c *Cache) HitRate() float64 {
	return float64(c.cachedTokens) / float64(max(c.promptTokens, 1))
}

// Tokens is how many tokens the cache would hold: the working set of all that
// was added.
func (c *Cache) Tokens() int { return len(c.seen) * vllmsim.DefaultBlockTokens }
