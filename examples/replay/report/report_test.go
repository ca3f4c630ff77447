package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html/template"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func write(t *testing.T, p Page) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, p))
	return b.String()
}

func arms(n, instances int) []Arm {
	var all []Arm
	for i := range n {
		a := Arm{Name: fmt.Sprintf("policy-%d", i), Colour: i}
		for k := range 101 {
			a.TTFT = append(a.TTFT, .01*math.Pow(1.05, float64(k+i)))
		}
		for k := range 40 {
			a.Hits = append(a.Hits, float64(k)/40)
		}
		a.Hits[7] = -1
		for k := range instances {
			a.Shares = append(a.Shares, float64(k+1)/float64(instances*(instances+1)/2))
		}
		all = append(all, a)
	}
	return all
}

var outside = regexp.MustCompile(`(?i)<(script|link|img|iframe|object)|(src|href)\s*=|url\(|@import`)

func TestPage(t *testing.T) {
	for _, n := range []int{0, 1, 5, 16} {
		html := write(t, Page{
			Title: "a <b> & c", Verdict: []string{"Yes."}, Arms: arms(n, 3*n), Span: time.Hour,
			Changes: []Change{{20 * time.Minute, "an engine was added"}},
			Columns: []string{"policy", "hit"}, Rows: []Row{{Name: "x", Cells: []string{"1"}, Notes: []string{"one failed"}}},
			Command: "replay -trace 'x'", Options: []Option{{"-trace", "<x>"}},
		})
		require.Contains(t, html, "a &lt;b&gt; &amp; c")
		require.Contains(t, html, "&lt;x&gt;")
		require.NotRegexp(t, outside, html, "nothing from elsewhere")
		require.NotContains(t, html, "NaN")
		require.NotContains(t, html, "Inf")
		require.Equal(t, 5*n, strings.Count(html, `<path fill="none" stroke="`), "two plots in two widths, and a legend")
		for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(html, -1) {
			require.NoError(t, xml.Unmarshal([]byte(svg), new(struct{})), svg)
		}
	}
}

// What an arm that had no answer leaves.
func TestEmptyArm(t *testing.T) {
	html := write(t, Page{Arms: []Arm{{Name: "nothing", TTFT: make([]float64, 101), Hits: []float64{-1, -1}}}})
	require.Contains(t, html, "no requests")
	require.NotContains(t, html, "NaN")
}

// No two tick labels of an axis may touch, whatever it spans.
func TestTicks(t *testing.T) {
	const letter = 6.6 // pixels of a letter at 12 pixels
	for _, width := range []int{wide, narrow} {
		frame := float64(width - 60)
		apart := func(a axis) {
			require.GreaterOrEqual(t, len(a.ticks), 2, a)
			for i := 1; i < len(a.ticks); i++ {
				gap := (a.place(a.ticks[i].at) - a.place(a.ticks[i-1].at)) * frame
				need := letter * float64(len(a.ticks[i].text)+len(a.ticks[i-1].text)) / 2
				require.Greater(t, gap, need*.95, "%v and %v of %g to %g, %d wide", a.ticks[i-1].text, a.ticks[i].text, a.low, a.high, width)
			}
		}
		for low := 1e-5; low < 100; low *= 1.7 {
			for ratio := 1.0; ratio < 1e6; ratio *= 1.9 {
				apart(logAxis(low, low*ratio, (width-60)/60))
			}
		}
		for span := .002; span < 1e6; span *= 1.3 {
			apart(timeAxis(span, (width-60)/70))
		}
	}
}

// The numbers of changes that came close together lie below each other.
func TestMarksApart(t *testing.T) {
	p := Page{Span: time.Hour}
	for _, minute := range []int{0, 20, 21, 22, 23, 59, 60} {
		p.Changes = append(p.Changes, Change{At: time.Duration(minute) * time.Minute})
	}
	for _, plot := range []template.HTML{drawHits(p, wide, wideHeight), drawHits(p, narrow, narrowHeight)} {
		var before [2]float64
		circles := regexp.MustCompile(`<circle class="mark" cx="([\d.]+)" cy="([\d.]+)" r="8"/>`).FindAllStringSubmatch(string(plot), -1)
		require.Len(t, circles, len(p.Changes))
		for _, c := range circles {
			x, err := strconv.ParseFloat(c[1], 64)
			require.NoError(t, err)
			y, err := strconv.ParseFloat(c[2], 64)
			require.NoError(t, err)
			require.GreaterOrEqual(t, math.Hypot(x-before[0], y-before[1]), 17., "%v", circles)
			before = [2]float64{x, y}
		}
	}
}

func TestDuration(t *testing.T) {
	for want, s := range map[string]float64{"0": 0, "20 µs": 2e-5, "1.5 ms": .0015, "250 ms": .25, "1 s": 1, "90 s": 90, "2 min": 120, "2.5 min": 150, "3 h": 10800} {
		require.Equal(t, want, duration(s))
	}
}
