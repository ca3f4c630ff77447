package client

import (
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed debug.html
var debugHTML string

//go:embed debug.css
var debugCSS string

// debugPolicy lets a browser load nothing and run nothing; the one style that
// it takes is the page's own, by its hash.
var debugPolicy = "default-src 'none'; style-src 'sha256-" + hashOfStyle() + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func hashOfStyle() string {
	sum := sha256.Sum256([]byte(debugCSS))
	return base64.StdEncoding.EncodeToString(sum[:])
}

var debugPage = template.Must(template.New("debug").Funcs(template.FuncMap{
	"style":    func() template.CSS { return template.CSS(debugCSS) },
	"count":    func(n any) string { return grouped(fmt.Sprint(n)) },
	"percent":  func(f float64) string { return percent(f) + " %" },
	"rate":     rateText,
	"ms":       millisecondsText,
	"bytes":    bytesText,
	"width":    func(f float64) string { return strconv.FormatFloat(100*min(max(f, 0), 1), 'f', 1, 64) },
	"ago":      func(now, then time.Time) string { return spanText(now.Sub(then)) + " ago" },
	"span":     spanText,
	"reasons":  reasonsText,
	"points":   func(e Estimate) string { return estimateText(e, percent, " points") },
	"hit":      func(e Estimate) string { return estimateText(e, percent, " %") },
	"first":    func(e Estimate) string { return estimateText(e, milliseconds, " ms") },
	"speed":    func(e Estimate) string { return estimateText(e, whole, " tokens/s") },
	"where":    whereText,
	"join":     func(s []string) string { return strings.Join(s, ", ") },
	"summary":  (*debugView).summary,
	"plural":   plural,
	"sentence": func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
}).Parse(debugHTML))

// grouped puts a narrow space between groups of three digits.
func grouped(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

// summary counts the endpoints by what is the matter with them.
func (v *debugView) summary() string {
	var healthy, unhealthy, unknown, aside, left int
	for _, e := range v.Endpoints {
		switch {
		case e.URL == "":
			left++
		case e.Health == "healthy":
			healthy++
		case e.Health == "unhealthy":
			unhealthy++
		default:
			unknown++
		}
		if e.Aside {
			aside++
		}
	}
	parts := []string{}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, grouped(fmt.Sprint(n))+" "+what)
		}
	}
	add(unhealthy, "unhealthy")
	add(aside, "set aside")
	add(left, "that left with requests in flight")
	add(healthy, "healthy")
	add(unknown, "of unknown health")
	return strings.Join(parts, ", ")
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(fmt.Sprint(n)) + " " + one + "s"
}

// Rate is the part, 0 to 1; 0 of nothing.
func (p part) Rate() float64 { return float64(p.Tokens) / float64(max(p.Of, 1)) }

func rateText(p part) string {
	if p.Of == 0 {
		return "–"
	}
	return percent(p.Rate()) + " %"
}

func millisecondsText(v float64) string {
	switch {
	case v >= 10_000:
		return fmt.Sprintf("%.1f s", v/1000)
	case v >= 100:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.1f ms", v)
}

func bytesText(n int) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/1024)
	}
	return fmt.Sprintf("%d B", n)
}

func spanText(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

func reasonsText(o overflow) string {
	parts := []string{}
	for _, reason := range slices.Sorted(maps.Keys(o)) {
		parts = append(parts, reason+" "+grouped(fmt.Sprint(o[reason])))
	}
	return strings.Join(parts, ", ")
}

func estimateText(e Estimate, write func(float64) string, unit string) string {
	if e.Conversations == 0 {
		return "–"
	}
	signed := func(v float64) string {
		return strings.Replace(strings.Replace(write(v), "-0.0", "0.0", 1), "-", "\u2212", 1)
	}
	if e.Conversations == 1 {
		return signed(e.Value) + unit
	}
	return fmt.Sprintf("%s%s (%s to %s)", signed(e.Value), unit, signed(e.Low), signed(e.High))
}

// whereText says at which place two prompts part.
func whereText(d divergence) string {
	switch d.Part {
	case "head-fields":
		return "model, template fields or cache salt"
	case "tools":
		return "tools"
	case "system":
		return fmt.Sprintf("system text, message %d", d.Message)
	case "raw":
		return "a body that is not canonicalized"
	}
	return fmt.Sprintf("message %d", d.Message)
}
