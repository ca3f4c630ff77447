package pwprom_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prefixwise/prefixwise/client/pwprom"
	"github.com/prefixwise/prefixwise/middleware"
)

type dashboard struct {
	Title      string
	Templating struct {
		List []struct{ Name, Query string }
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Datasource               struct{ UID string }
	Targets                  []struct{ RefID, Expr, LegendFormat string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	raw, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(raw, &d))
	return d
}

// described returns the labels of each series that the collector registers.
func described(t *testing.T) map[string][]string {
	t.Helper()
	descs := make(chan *prometheus.Desc, 64)
	pwprom.New().Describe(descs)
	close(descs)
	form := regexp.MustCompile(`^Desc\{fqName: "(\w+)", help: "(.+)", .*variableLabels: \{([\w,]*)\}`)
	all := map[string][]string{}
	for d := range descs {
		m := form.FindStringSubmatch(d.String())
		require.NotNil(t, m, d.String())
		labels := append(strings.Split(m[3], ","), "job", "instance") // Prometheus's own
		all[m[1]] = labels
		if strings.HasSuffix(m[1], "_seconds") { // the histograms
			delete(all, m[1])
			all[m[1]+"_bucket"], all[m[1]+"_sum"], all[m[1]+"_count"] = append(labels, "le"), labels, labels
		}
	}
	return all
}

var (
	quoted = regexp.MustCompile(`"[^"]*"`)
	word   = regexp.MustCompile(`\$?\b[a-zA-Z_:][a-zA-Z0-9_:]*`)
	// promQL are the words of the language that the dashboard uses.
	promQL   = strings.Fields("sum min max by rate increase histogram_quantile scalar")
	outcome  = regexp.MustCompile(`outcome[=!~]+"([^"]*)"`)
	outcomes = []middleware.Outcome{middleware.OutcomeOK, middleware.OutcomeRefused, middleware.OutcomeFailed, middleware.OutcomeCanceled}
)

// Each expression asks for what the collector registers, by labels it has.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	series := described(t)
	used := map[string]bool{}
	for _, p := range readDashboard(t).Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			expr := quoted.ReplaceAllString(target.Expr, "")
			require.Equal(t, strings.Count(expr, "("), strings.Count(expr, ")"), target.Expr)
			allowed := promQL
			names := word.FindAllString(strings.ReplaceAll(expr, "$__rate_interval", ""), -1)
			for _, name := range names {
				if labels, ok := series[name]; ok {
					used[name] = true
					allowed = append(slices.Clone(allowed), labels...)
				}
			}
			for _, name := range names {
				if _, ok := series[name]; !ok {
					require.Contains(t, allowed, name, "%s: %s", p.Title, target.Expr)
				}
			}
			for _, m := range outcome.FindAllStringSubmatch(target.Expr, -1) {
				for o := range strings.SplitSeq(m[1], "|") {
					require.Contains(t, outcomes, middleware.Outcome(o), target.Expr)
				}
			}
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				require.Contains(t, target.Expr, "by ("+m[1]+")", "the legend's label is in the result")
			}
		}
	}
	for name := range series {
		if strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "endpoint_failures_total") || strings.HasPrefix(name, "prefixwise_time_to_first_token_seconds_count") {
			continue // there for other questions
		}
		require.Contains(t, used, name, "on no panel")
	}
}

func TestDashboardLayout(t *testing.T) {
	d := readDashboard(t)
	require.Equal(t, "Prefixwise", d.Title)
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "%s: id %d", p.Title, p.ID)
		ids[p.ID] = true
		require.NotEmpty(t, p.Title)
		require.NotEmpty(t, p.Description, p.Title)
		require.Contains(t, []string{"percentunit", "s", "reqps", "short"}, p.FieldConfig.Defaults.Unit, p.Title)
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		g := p.GridPos
		require.Positive(t, g.W, p.Title)
		require.Positive(t, g.H, p.Title)
		require.LessOrEqual(t, g.X+g.W, 24, p.Title)
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s lies over it", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			require.False(t, refs[target.RefID], p.Title)
			refs[target.RefID] = true
		}
	}
	for _, want := range []string{"Token hit rate", "Time to first token", "In flight by endpoint", "Share by endpoint",
		"Overflow by reason", "Retries and failovers", "Ejections", "Throughput: tokens"} {
		require.True(t, slices.ContainsFunc(d.Panels, func(p panel) bool { return p.Title == want }), want)
	}
}
