package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prefixwise/prefixwise/discovery"
	"github.com/prefixwise/prefixwise/middleware"
)

// Check asks every endpoint about itself and says what keeps prefix routing
// from making sense here, or from doing its work: each finding with what to do
// about it. It reads /health, /version, /v1/models and /metrics over
// connections of its own, which takes about as long as the slowest endpoint
// needs for four small answers. It sends no prompts unless [CheckUsage] asks
// for that, and the fleet's key to /v1 only. The end of ctx ends it; what could
// not be asked by then is found unreachable.
func (c *Client) Check(ctx context.Context, opts ...CheckOption) Findings {
	k := &checkup{
		header:    c.fleet.header,
		transport: middleware.NewTransport(c.fleet.transportOptions),
	}
	for _, o := range opts {
		if o != nil {
			o(k)
		}
	}
	defer k.transport.CloseIdleConnections()

	members := c.fleet.watcher.Members()
	if len(members) == 0 {
		// Names may not have been looked up yet.
		first, cancel := context.WithTimeout(ctx, checkTimeout)
		err := c.fleet.watcher.Ready(first)
		cancel()
		if members = c.fleet.watcher.Members(); len(members) == 0 {
			k.find(NoEndpoints, SevereFinding, "", fmt.Sprintf("no endpoint is known: %v", err),
				"check the names and addresses that the client was given, and the DNS behind them")
		}
	}
	asked := make([]examined, len(members))
	var group sync.WaitGroup
	slots := make(chan struct{}, checksAtOnce)
	for i, m := range members {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			asked[i] = k.examine(ctx, m)
		})
	}
	group.Wait()
	k.compare(asked)
	k.traffic(c)
	slices.SortStableFunc(k.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return k.found
}

const (
	// checkTimeout bounds one question to one endpoint. A busy engine answers
	// late; discovery gives its probes as long.
	checkTimeout = 5 * time.Second
	// checksAtOnce bounds the endpoints that are asked at the same time.
	checksAtOnce = 32
)

// CheckOption makes [Client.Check] look at more.
type CheckOption func(*checkup)

// CheckUsage sends each endpoint one request for one token, to see whether its
// answers tell how many tokens came from the cache. The prompt is one letter.
func CheckUsage() CheckOption { return func(k *checkup) { k.usage = true } }

// CheckIdle leaves a connection to each endpoint unused for almost as long as
// the client keeps one (4 s by default), to see whether the endpoint closes it
// sooner: a request that meets that moment fails.
func CheckIdle() CheckOption { return func(k *checkup) { k.idle = true } }

// checkup is one Check under way.
type checkup struct {
	header      http.Header
	transport   *middleware.Transport
	usage, idle bool

	mu    sync.Mutex
	found Findings
}

func (k *checkup) find(code FindingCode, severity Severity, endpoint, message, advice string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.found = append(k.found, Finding{Code: code, Severity: severity, Endpoint: endpoint, Message: message, Advice: advice})
}

// usageTold is from how many answers on their silence about cached tokens says
// something: vLLM before 0.9 leaves the number out when it is 0.
const usageTold = 20

// traffic looks at what the client's own requests have shown.
func (k *checkup) traffic(c *Client) {
	switch c.fleet.router.Strategy() {
	case LeastOutstanding, RoundRobin, Random:
		k.find(PrefixesIgnored, WarningFinding, "",
			fmt.Sprintf("the strategy %s does not look at prefixes", c.fleet.router.Strategy()),
			"use client.Affinity, the default; unset PREFIXWISE_DISABLED if it is 1")
	}
	s := c.Stats()
	if s.Reporting == 0 && s.Unreported >= usageTold {
		k.find(CachedTokensUnreported, WarningFinding, "",
			fmt.Sprintf("none of %d answers told how many tokens came from the cache", s.Unreported), adviseReporting)
	}
	k.habits(s.Advice())
}

// habits looks at what the client's prompts have in common.
func (k *checkup) habits(a Advice) {
	if a.Verdict == NotWorthIt && a.Instances > 1 {
		k.find(PrefixRoutingIdle, InfoFinding, "", "prefix routing is not worth it for the calls of late: "+a.Reason,
			"nothing, or client.LeastOutstanding as the strategy; Stats().Advice() and canon.Lint say more")
	}
}

const adviseReporting = "start vLLM with --enable-prompt-tokens-details; without it the hit rate is unknown and placement learns less"

// compare looks at what the endpoints have, or should have, in common.
func (k *checkup) compare(asked []examined) {
	alive := slices.DeleteFunc(slices.Clone(asked), func(e examined) bool { return !e.alive })
	if len(asked) == 1 {
		k.find(FewEndpoints, WarningFinding, "", "the fleet has one endpoint, so there is nothing to choose",
			"add instances, or use the bare client; if one URL stands for several, name them (WithDNS, WithSRV, WithDataParallel), since a balancer in between undoes prefix routing")
	}
	versions := groups(alive, func(e examined) string { return e.version })
	if len(versions) > 1 {
		k.find(VersionsDiffer, WarningFinding, "", "the endpoints run different versions: "+listed(versions),
			"bring them to one version: another version may render prompts to other tokens, or order its cache differently")
	}
	models := groups(alive, func(e examined) string { return strings.Join(e.models, ", ") })
	if len(models) > 1 {
		k.find(ModelsDiffer, InfoFinding, "", "the endpoints serve different models: "+listed(models),
			"nothing, if it is meant: requests go only where their model is served, and each model's prefixes are shared among fewer instances")
	}
	var names []string
	for _, e := range alive {
		for name := range e.lengths {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		lengths := groups(alive, func(e examined) string {
			if n := e.lengths[name]; n > 0 {
				return fmt.Sprintf("%d tokens", n)
			}
			return ""
		})
		if len(lengths) > 1 {
			k.find(LengthsDiffer, WarningFinding, "", fmt.Sprintf("the endpoints serve %s with different context lengths: %s", name, listed(lengths)),
				"set the same --max-model-len everywhere: a long conversation is refused where the length is smaller")
		}
	}
}

// groups returns which endpoints have which value; those without one are left
// out.
func groups(all []examined, value func(examined) string) map[string][]string {
	g := map[string][]string{}
	for _, e := range all {
		if v := value(e); v != "" {
			g[v] = append(g[v], e.id)
		}
	}
	return g
}

// listed writes groups, the largest first.
func listed(g map[string][]string) string {
	values := make([]string, 0, len(g))
	for v := range g {
		values = append(values, v)
	}
	slices.SortFunc(values, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(g[b]), len(g[a])), cmp.Compare(a, b))
	})
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprintf("%s (%s)", v, some(g[v]))
	}
	return strings.Join(parts, "; ")
}

// some lists identities, the first few of many.
func some(ids []string) string {
	const most = 3
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
}

// unhealthyBecause says why discovery takes a member to be unhealthy.
func unhealthyBecause(m discovery.Member) string {
	if m.HealthErr != nil {
		return m.HealthErr.Error()
	}
	return "its health probes fail"
}
