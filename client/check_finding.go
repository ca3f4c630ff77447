package client

import (
	"fmt"
	"strings"
)

// Finding is one thing that [Client.Check] has noticed.
type Finding struct {
	Code     FindingCode `json:"code"`
	Severity Severity    `json:"severity"`
	Endpoint string      `json:"endpoint,omitempty"` // "" is the fleet as a whole
	Message  string      `json:"message"`            // what is so
	Advice   string      `json:"advice"`             // what to do about it
}

// FindingCode names a kind of finding for programs.
type FindingCode string

// The kinds of finding.
const (
	NoEndpoints            FindingCode = "no-endpoints"             // nothing is known to send to
	FewEndpoints           FindingCode = "few-endpoints"            // there is nothing to choose
	PrefixesIgnored        FindingCode = "prefixes-ignored"         // the strategy does not look at prefixes
	PrefixRoutingIdle      FindingCode = "not-worth-it"             // prompts have too little in common
	Unreachable            FindingCode = "unreachable"              // no answer
	EndpointUnhealthy      FindingCode = "unhealthy"                // /health says so
	Redirected             FindingCode = "redirected"               // something in front of the engine answers
	KeyRefused             FindingCode = "key-refused"              // the API key is missing or wrong
	ModelsUnknown          FindingCode = "models-unknown"           // no list of models
	VersionUnknown         FindingCode = "version-unknown"          // no vLLM, or it is hidden
	MetricsUnknown         FindingCode = "metrics-unknown"          // the engine's load and cache are not seen
	PrefixCachingOff       FindingCode = "prefix-caching-off"       // nothing is ever cached
	CacheSizeUnknown       FindingCode = "cache-size-unknown"       // KV memory is not told
	RanksHidden            FindingCode = "ranks-hidden"             // one URL, several caches
	ConnectionsClosed      FindingCode = "connections-closed"       // no keep-alive
	IdleTimeoutShort       FindingCode = "idle-timeout-short"       // keep-alive for less long than ours
	ClockSkewed            FindingCode = "clock-skewed"             // Date is not ours
	CachedTokensUnreported FindingCode = "cached-tokens-unreported" // usage does not say what was cached
	UsageUnknown           FindingCode = "usage-unknown"            // CheckUsage got no answer
	ModelsDiffer           FindingCode = "models-differ"
	VersionsDiffer         FindingCode = "versions-differ"
	LengthsDiffer          FindingCode = "lengths-differ" // of one model's context
)

// Severity says how much a finding matters.
type Severity uint8

// The severities.
const (
	InfoFinding    Severity = iota // worth knowing; may be as it is meant
	WarningFinding                 // costs cache hits, or the sight of them
	SevereFinding                  // requests fail, or prefix routing cannot work
)

// String returns "info", "warning" or "severe".
func (s Severity) String() string {
	switch s {
	case InfoFinding:
		return "info"
	case WarningFinding:
		return "warning"
	default:
		return "severe"
	}
}

// MarshalText spells the severity as String does.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *Severity) UnmarshalText(text []byte) error {
	for v := InfoFinding; v <= SevereFinding; v++ {
		if v.String() == string(text) {
			*s = v
			return nil
		}
	}
	return fmt.Errorf("prefixwise: unknown severity %q; use info, warning or severe", text)
}

// Findings are what a [Client.Check] has noticed, the most severe first. They
// are empty when nothing is wrong.
type Findings []Finding

// Worst returns the highest severity, and false when there is no finding.
func (f Findings) Worst() (Severity, bool) {
	worst := InfoFinding
	for _, one := range f {
		worst = max(worst, one.Severity)
	}
	return worst, len(f) > 0
}

// String lists the findings for people. What many endpoints have in common
// is said once.
func (f Findings) String() string {
	if len(f) == 0 {
		return "nothing found: the fleet is set up for prefix routing\n"
	}
	type kind struct {
		code            FindingCode
		message, advice string
	}
	var order []kind
	where := map[kind][]string{}
	severity := map[kind]Severity{}
	for _, one := range f {
		k := kind{one.Code, one.Message, one.Advice}
		if _, known := severity[k]; !known {
			order = append(order, k)
			severity[k] = one.Severity
		}
		if one.Endpoint != "" {
			where[k] = append(where[k], one.Endpoint)
		}
	}
	var b strings.Builder
	for _, k := range order {
		fmt.Fprintf(&b, "%s: %s", severity[k], k.message)
		if ids := where[k]; len(ids) > 0 {
			fmt.Fprintf(&b, " (%s)", some(ids))
		}
		fmt.Fprintf(&b, " [%s]\n  %s\n", k.code, k.advice)
	}
	return b.String()
}
