package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prefixwise/prefixwise/discovery"
)

// examined is what one endpoint has said about itself.
type examined struct {
	id      string
	alive   bool           // it answers
	version string         // "" unknown
	models  []string       // sorted; nil unknown
	lengths map[string]int // context length of each model that tells one
	served  string         // a base model, for CheckUsage
}

// examine asks one endpoint, one question after another: whether the second
// comes over the connection of the first tells whether it is kept.
func (k *checkup) examine(ctx context.Context, m discovery.Member) examined {
	e := examined{id: m.ID}
	find := func(code FindingCode, severity Severity, message, advice string) {
		k.find(code, severity, m.ID, message, advice)
	}
	version, err := k.get(ctx, m.Endpoint, "/version", nil)
	if err != nil {
		find(Unreachable, SevereFinding, "it cannot be reached: "+err.Error(),
			"start the instance, or mend its address, port, TLS or network policy")
		return e
	}
	e.alive = true
	if skew := version.skew(); skew.Abs() > maxSkew {
		find(ClockSkewed, WarningFinding, fmt.Sprintf("its clock is %v %s this machine's", skew.Abs().Round(time.Second), aheadOf(skew)),
			"synchronize the clocks (NTP): chat templates that print the date change it at different moments, and logs cannot be put side by side")
	}
	if version.status/100 == 3 {
		find(Redirected, SevereFinding, fmt.Sprintf("it answers /version with a redirect (%d)", version.status),
			"give the address of the engine itself; redirects are not followed, since the key belongs to the fleet")
		return e
	}
	var said struct{ Version string }
	if version.status == http.StatusOK && json.Unmarshal(version.body, &said) == nil {
		e.version = said.Version
	}
	if e.version == "" {
		find(VersionUnknown, InfoFinding, fmt.Sprintf("/version does not tell a version (status %d)", version.status),
			"nothing, if the engine is not vLLM; otherwise let the client reach /version, to see versions that differ")
	}
	health, err := k.get(ctx, m.Endpoint, "/health", nil)
	if err != nil {
		find(Unreachable, SevereFinding, "it stopped answering: "+err.Error(), "look at the instance's log")
		return e
	}
	if version.closes || health.traced && !health.reused {
		find(ConnectionsClosed, WarningFinding, "it closes the connection after each answer",
			"turn keep-alive on in the engine or the proxy in front of it: otherwise each request opens a connection")
	} else if s := version.keepAlive(); s > 0 && s <= k.idleTimeout(m.Endpoint) {
		find(IdleTimeoutShort, WarningFinding, fmt.Sprintf("it closes unused connections after %v; the client keeps them for %v", s, k.idleTimeout(m.Endpoint)), adviseIdle)
	}
	switch {
	case health.status == http.StatusServiceUnavailable:
		find(EndpointUnhealthy, SevereFinding, "/health says 503", "look at the instance's log; vLLM says so when its engine has died")
	case m.Health == discovery.Unhealthy:
		find(EndpointUnhealthy, SevereFinding, "it is taken to be unhealthy: "+unhealthyBecause(m), "look at the instance's log")
	}
	k.askModels(ctx, m.Endpoint, &e, find)
	k.askMetrics(ctx, m.Endpoint, find)
	if k.usage && e.served != "" {
		k.askUsage(ctx, m.Endpoint, e.served, find)
	}
	if k.idle {
		k.waitIdle(ctx, m.Endpoint, find)
	}
	return e
}

type findFunc func(code FindingCode, severity Severity, message, advice string)

func (k *checkup) askModels(ctx context.Context, ep discovery.Endpoint, e *examined, find findFunc) {
	a, err := k.get(ctx, ep, "/v1/models", k.header)
	const advice = "let the client read /v1/models: until then every model is taken to be served everywhere"
	switch {
	case err != nil:
		find(ModelsUnknown, WarningFinding, "its models cannot be read: "+err.Error(), advice)
		return
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		if k.header.Get("Authorization") == "" {
			find(KeyRefused, SevereFinding, fmt.Sprintf("it wants an API key (status %d) and the client has none", a.status),
				"give the key with client.WithAPIKey or OPENAI_API_KEY; a key that only the SDK sets is not known to Check")
		} else {
			find(KeyRefused, SevereFinding, fmt.Sprintf("it refuses the client's API key (status %d)", a.status),
				"give the key that the instance was started with (--api-key); it must be the same for the whole fleet")
		}
		return
	case a.status != http.StatusOK:
		find(ModelsUnknown, WarningFinding, fmt.Sprintf("/v1/models answers %d", a.status), advice)
		return
	}
	var list struct {
		Data []struct {
			ID          string  `json:"id"`
			Parent      *string `json:"parent"`
			MaxModelLen int     `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.body, &list); err != nil || len(list.Data) == 0 {
		find(ModelsUnknown, WarningFinding, "/v1/models does not list models", advice)
		return
	}
	e.lengths = map[string]int{}
	for _, card := range list.Data {
		e.models = append(e.models, card.ID)
		if card.MaxModelLen > 0 {
			e.lengths[card.ID] = card.MaxModelLen
		}
		if card.Parent == nil && e.served == "" {
			e.served = card.ID
		}
	}
	slices.Sort(e.models)
}

func (k *checkup) askMetrics(ctx context.Context, ep discovery.Endpoint, find findFunc) {
	a, err := k.get(ctx, ep, "/metrics", nil)
	var engines map[string]discovery.Metrics
	switch {
	case err != nil:
	case a.status != http.StatusOK:
		err = fmt.Errorf("status %d", a.status)
	default:
		engines, err = discovery.ParseMetrics(a.body)
	}
	if err != nil {
		find(MetricsUnknown, WarningFinding, "its load and cache cannot be read: "+err.Error(),
			"let the client reach vLLM's /metrics: without it, placement knows of this client's own requests only, and whether prefix caching is on is not known")
		return
	}
	if ep.Rank == discovery.NoRank && len(engines) > 1 {
		find(RanksHidden, WarningFinding, fmt.Sprintf("behind its URL are %d engines, each with a cache of its own", len(engines)),
			fmt.Sprintf("use client.WithDataParallel(%d): otherwise the engine spreads requests over its ranks without regard to prefixes", len(engines)))
	}
	off, unsized := false, false
	for rank, engine := range engines {
		if ep.Rank != discovery.NoRank && rank != strconv.Itoa(ep.Rank) {
			continue
		}
		off = off || engine.NoPrefixCaching
		unsized = unsized || engine.CacheTokens == 0
	}
	switch {
	case off:
		find(PrefixCachingOff, SevereFinding, "prefix caching is off, so no prompt is ever cached",
			"start vLLM without --no-enable-prefix-caching")
	case unsized:
		find(CacheSizeUnknown, InfoFinding, "it does not tell the size of its KV memory (vllm:cache_config_info)",
			"use a vLLM that tells num_gpu_blocks: with many long system prompts and little memory, caches may be overrun, since each prompt is then spread over the whole fleet")
	}
}

// askUsage sends one request for one token.
func (k *checkup) askUsage(ctx context.Context, ep discovery.Endpoint, model string, find findFunc) {
	body, err := json.Marshal(map[string]any{"model": model, "prompt": "a", "max_tokens": 1, "temperature": 0})
	if err != nil { // a string and numbers
		return
	}
	header := k.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/json")
	if ep.Rank != discovery.NoRank {
		header.Set("X-Data-Parallel-Rank", strconv.Itoa(ep.Rank))
	}
	a, err := k.ask(ctx, ep, http.MethodPost, "/v1/completions", body, header)
	var said struct {
		Usage *struct {
			Details *struct {
				Cached *int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("status %d", a.status)
	}
	if err == nil {
		err = json.Unmarshal(a.body, &said)
	}
	switch {
	case err != nil:
		find(UsageUnknown, InfoFinding, fmt.Sprintf("a request for one token to %s failed: %v", model, err),
			"nothing, if the model does not generate text")
	case said.Usage == nil || said.Usage.Details == nil || said.Usage.Details.Cached == nil:
		find(CachedTokensUnreported, WarningFinding, "its answers do not tell how many tokens came from the cache", adviseReporting)
	}
}

const adviseIdle = "raise the server's keep-alive (VLLM_HTTP_TIMEOUT_KEEP_ALIVE), or lower the client's with WithTransport: a request that meets the closing of its connection fails"

// idleMargin is how much sooner than the client would drop an unused connection
// waitIdle uses it.
const idleMargin = 300 * time.Millisecond

// waitIdle sees whether a connection outlives the client's own idle time.
func (k *checkup) waitIdle(ctx context.Context, ep discovery.Endpoint, find findFunc) {
	limit := k.idleTimeout(ep)
	if limit <= idleMargin {
		return
	}
	before, err := k.get(ctx, ep, "/health", nil)
	if err != nil || !before.traced || before.closes {
		return
	}
	timer := time.NewTimer(limit - idleMargin)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return
	}
	a, err := k.get(ctx, ep, "/health", nil)
	if err != nil || a.asked.Sub(before.asked.Add(before.took)) >= limit { // this machine was late, and the client may have closed it
		return
	}
	if !a.reused {
		find(IdleTimeoutShort, WarningFinding, fmt.Sprintf("it closes unused connections before %v have passed; the client keeps them that long", limit), adviseIdle)
	}
}

// idleTimeout is how long the client keeps an unused connection, 0 if that is
// the caller's own transport's secret.
func (k *checkup) idleTimeout(ep discovery.Endpoint) time.Duration {
	if t, ok := k.transport.For(ep).(*http.Transport); ok {
		return t.IdleConnTimeout
	}
	return 0
}
