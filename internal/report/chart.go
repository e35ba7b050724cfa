package report

import (
	"cmp"
	"fmt"
	"strings"
)

// Sizes in pixels.
const (
	width        = 720
	height       = 360
	marginLeft   = 64
	marginRight  = 24
	marginTop    = 40
	marginBottom = 48
	legendLine   = 16
	tickLine     = 14
)

// colors are those of Okabe and Ito, which colour-blind readers can tell apart.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#555555"}

// Series is one line of a chart.
type Series struct {
	Name   string // "" leaves it out of the legend
	X, Y   []float64
	Points bool // marks instead of a line
	Dashed bool
}

// Tick is a labelled value of an axis. A label may have two lines.
type Tick struct {
	At    float64
	Label string
}

// Chart is a chart of lines or points over numbers.
type Chart struct {
	Title          string
	XLabel, YLabel string
	LogX, LogY     bool
	YMax           float64 // 0: from the data
	XTicks         []Tick  // nil: round values; otherwise the axis goes from the first to the last
	Series         []Series
}

// SVG returns the chart.
func (c *Chart) SVG() []byte {
	f := newFrame(c.Title, width)
	xs, ys := span{}, span{}
	names := make([]string, len(c.Series))
	for i, s := range c.Series {
		xs.add(s.X)
		ys.add(s.Y)
		names[i] = s.Name
	}
	f.legend(names)
	x := axis{from: marginLeft, to: f.width - marginRight, log: c.LogX}
	y := axis{from: height - marginBottom, to: f.top, log: c.LogY}
	x.fit(xs.lo, xs.hi)
	if xs.hi > xs.lo && !c.LogX { // no margins, and time need not begin at 0
		x.lo, x.hi = xs.lo, xs.hi
	}
	y.fit(ys.lo, ys.hi)
	if c.YMax > 0 {
		y.hi = c.YMax
	}
	if n := len(c.XTicks); n > 1 {
		x.lo, x.hi = c.XTicks[0].At, c.XTicks[n-1].At
	}
	f.axes(&x, &y, c.XLabel, c.YLabel)
	if c.XTicks == nil {
		for _, t := range x.ticks() {
			f.xTick(x.at(t), number(t))
		}
	}
	for _, t := range c.XTicks {
		f.xTick(x.at(t.At), t.Label)
	}
	for i, s := range c.Series {
		f.series(&s, &x, &y, colors[i%len(colors)])
	}
	return f.finish()
}

func (f *frame) series(s *Series, x, y *axis, color string) {
	if s.Points {
		for i := range s.X {
			f.printf(`<circle cx="%s" cy="%s" r="3" fill="%s"/>`, px(x.at(s.X[i])), px(y.at(s.Y[i])), color)
		}
		return
	}
	var d strings.Builder
	for i := range s.X {
		op := "L"
		if i == 0 {
			op = "M"
		}
		fmt.Fprintf(&d, "%s%s %s", op, px(x.at(s.X[i])), px(y.at(min(s.Y[i], y.hi))))
	}
	dash := ""
	if s.Dashed {
		dash = ` stroke-dasharray="5 3"`
	}
	f.printf(`<path d="%s" fill="none" stroke="%s" stroke-width="1.5" stroke-linejoin="round"%s/>`,
		d.String(), color, dash)
}

// Bars is a chart of groups of bars, one bar of each series in a group.
type Bars struct {
	Title  string
	YLabel string
	LogY   bool
	YMax   float64
	Width  int      // 0: that of a Chart
	Groups []string // names, of one line or two
	Series []BarSeries
}

// BarSeries is one bar of each group; NaN leaves it out.
type BarSeries struct {
	Name   string
	Values []float64
}

// SVG returns the chart.
func (b *Bars) SVG() []byte {
	f := newFrame(b.Title, cmp.Or(b.Width, width))
	ys := span{}
	names := make([]string, len(b.Series))
	for i, s := range b.Series {
		ys.add(s.Values)
		names[i] = s.Name
	}
	f.legend(names)
	x := axis{from: marginLeft, to: f.width - marginRight, hi: float64(max(len(b.Groups), 1))}
	y := axis{from: height - marginBottom, to: f.top, log: b.LogY}
	y.fit(ys.lo, ys.hi)
	if b.YMax > 0 {
		y.hi = b.YMax
	}
	f.axes(&x, &y, "", b.YLabel)
	const fill = 0.8 // of the width of a group
	w := fill / float64(max(len(b.Series), 1))
	for g, name := range b.Groups {
		f.xTick(x.at(float64(g)+0.5), name)
		for i, s := range b.Series {
			if g >= len(s.Values) || s.Values[g] != s.Values[g] {
				continue
			}
			left := x.at(float64(g) + (1-fill)/2 + float64(i)*w)
			right := x.at(float64(g) + (1-fill)/2 + float64(i+1)*w)
			top, bottom := y.at(min(s.Values[g], y.hi)), y.at(y.lo)
			f.printf(`<rect x="%s" y="%s" width="%s" height="%s" fill="%s"><title>%s, %s: %s</title></rect>`,
				px(left), px(top), px(right-left-1), px(max(bottom-top, 0)), colors[i%len(colors)],
				escape(strings.ReplaceAll(name, "\n", " ")), escape(s.Name), number(s.Values[g]))
		}
	}
	return f.finish()
}

// span is the range of values seen.
type span struct {
	lo, hi float64
	any    bool
}

func (s *span) add(values []float64) {
	for _, v := range values {
		switch {
		case v != v:
		case !s.any:
			s.lo, s.hi, s.any = v, v, true
		default:
			s.lo, s.hi = min(s.lo, v), max(s.hi, v)
		}
	}
}
