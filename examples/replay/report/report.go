// Package report writes a comparison of routing policies as one HTML page that
// needs nothing from elsewhere: the plots are inline SVG, there are no scripts.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

// Page is what a report shows.
type Page struct {
	Title   string
	About   []string // what was replayed where
	Verdict []string // the first line says yes or no
	Arms    []Arm
	Span    time.Duration // from the first request to the last
	Changes []Change      // of the fleet during the run
	Columns []string
	Rows    []Row
	Command string
	Options []Option // the settings, defaults included
}

// Arm is one policy in the plots. Rates and shares are fractions.
type Arm struct {
	Name   string
	TTFT   []float64 // time to first token in seconds, from the fastest to the slowest request, at equal distances
	Hits   []float64 // hit rate in equal parts of the span; below 0: unknown
	Shares []float64 // of the requests, by instance
	Colour int       // of its lines, from 0; arms that belong together have the same
	Dash   int       // of its lines, from 0
}

// Change is an instance that came or left.
type Change struct {
	At   time.Duration
	What string
}

// Row is a row of the table.
type Row struct {
	Name      string
	Cells     []string
	Notes     []string // below it
	Secondary bool     // belongs to the row above it
}

// Option is a setting.
type Option struct{ Name, Value string }

//go:embed report.html
var text string

var page = template.Must(template.New("report").Parse(text))

// Plots come in two widths, in pixels at which their text is as large as the
// page's: the style sheet shows the one that fits.
const (
	wide, wideHeight     = 560, 320
	narrow, narrowHeight = 350, 270
)

// view is what the template gets.
type view struct {
	Page
	Legend         []legend
	TTFT, Hits     plots
	Shares         []strip
	ChangeMarks    []mark
	EvenShare      string
	InstancesShown int
}

type plots struct{ Wide, Narrow template.HTML }

type legend struct {
	Name   string
	Swatch template.HTML
}

type mark struct {
	Number   int
	At, What string
}

// Write writes the page.
func Write(w io.Writer, p Page) error {
	v := view{Page: p}
	for _, a := range p.Arms {
		v.Legend = append(v.Legend, legend{a.Name, swatch(a)})
		v.Shares = append(v.Shares, strip{a.Name, bars(a, p.Arms), shareText(a.Shares)})
		v.InstancesShown = max(v.InstancesShown, len(a.Shares))
	}
	if v.InstancesShown > 0 {
		v.EvenShare = percent(1 / float64(v.InstancesShown))
	}
	both := func(draw func(width, height int) template.HTML) plots {
		return plots{draw(wide, wideHeight), draw(narrow, narrowHeight)}
	}
	v.TTFT = both(func(width, height int) template.HTML { return drawTTFT(p.Arms, width, height) })
	v.Hits = both(func(width, height int) template.HTML { return drawHits(p, width, height) })
	for i, c := range p.Changes {
		v.ChangeMarks = append(v.ChangeMarks, mark{i + 1, duration(c.At.Seconds()), c.What})
	}
	return page.Execute(w, v)
}

func percent(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) }
