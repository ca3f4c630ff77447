package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// canvas is one plot under construction: a frame with two axes.
type canvas struct {
	b                        strings.Builder
	width, height            float64
	left, right, top, bottom float64 // of the frame, in pixels
	x, y                     axis
	marked                   struct{ x, y float64 } // the last mark
}

// axis maps values to the frame.
type axis struct {
	low, high float64
	log       bool
	ticks     []tick
	name      string
}

type tick struct {
	at   float64
	text string
}

// place returns where a value lies between the ends, 0 to 1.
func (a axis) place(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(max(v, a.low)), math.Log(low), math.Log(high)
	}
	return min(1, max(0, (v-low)/(high-low)))
}

func newCanvas(width, height int, label string, x, y axis) *canvas {
	c := &canvas{width: float64(width), height: float64(height), x: x, y: y,
		left: 46, right: float64(width) - 14, top: 12, bottom: float64(height) - 44}
	fmt.Fprintf(&c.b, `<svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`, width, height, width, height, template.HTMLEscapeString(label))
	for _, t := range y.ticks {
		at := c.py(t.at)
		fmt.Fprintf(&c.b, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, c.left, at, c.right, at)
		fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" text-anchor="end">%s</text>`, c.left-6, at+4, t.text)
	}
	for _, t := range x.ticks {
		at := c.px(t.at)
		fmt.Fprintf(&c.b, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, at, c.top, at, c.bottom)
		anchor := "middle"
		if at > c.right-18 { // it would stand out of the picture
			at, anchor = c.width, "end"
		}
		fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, at, c.bottom+16, anchor, t.text)
	}
	fmt.Fprintf(&c.b, `<text class="axis" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, (c.left+c.right)/2, c.height-8, x.name)
	return c
}

func (c *canvas) px(v float64) float64 { return c.left + c.x.place(v)*(c.right-c.left) }
func (c *canvas) py(v float64) float64 { return c.bottom - c.y.place(v)*(c.bottom-c.top) }

// line draws a curve through points.
func (c *canvas) line(style string, xs, ys []float64) {
	if len(xs) == 0 {
		return
	}
	fmt.Fprintf(&c.b, `<path %s d="`, style)
	for i := range xs {
		letter := 'L'
		if i == 0 {
			letter = 'M'
		}
		fmt.Fprintf(&c.b, "%c%.1f %.1f", letter, c.px(xs[i]), c.py(ys[i]))
	}
	c.b.WriteString(`"/>`)
}

// mark draws a numbered vertical line. A number that would lie on the one before
// goes below it.
func (c *canvas) mark(at float64, number int) {
	const size = 18
	x, y := c.px(at), c.top+size/2
	if below := c.marked.y + size; number > 1 && math.Abs(x-c.marked.x) < size && below < c.bottom {
		y = below
	}
	c.marked.x, c.marked.y = x, y
	fmt.Fprintf(&c.b, `<line class="mark" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x, c.top, x, c.bottom)
	fmt.Fprintf(&c.b, `<circle class="mark" cx="%.1f" cy="%.1f" r="8"/><text class="mark" x="%.1f" y="%.1f" text-anchor="middle">%d</text>`,
		x, y, x, y+4, number)
}

func (c *canvas) end() template.HTML {
	c.b.WriteString("</svg>")
	return template.HTML(c.b.String())
}

// Eight colours that are told apart by most eyes (after Okabe and Ito).
var (
	colours = [...]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a5c00", "#56b4e9", "#000000", "#e69f00"}
	dashes  = [...]string{"", "6 3", "2 3", "8 3 2 3"}
)

func (a Arm) colour() string { return colours[a.Colour%len(colours)] }

// stroke is the style of an arm's lines. Colours beyond the eighth are dashed.
func (a Arm) stroke() string {
	style := fmt.Sprintf(`fill="none" stroke="%s" stroke-width="2"`, a.colour())
	if d := dashes[(a.Dash+a.Colour/len(colours))%len(dashes)]; d != "" {
		style += fmt.Sprintf(` stroke-dasharray="%s"`, d)
	}
	return style
}

func swatch(a Arm) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 28 10" width="28" height="10" aria-hidden="true"><path %s d="M0 5H28"/></svg>`, a.stroke()))
}
