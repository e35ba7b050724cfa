package report

import (
	"bytes"
	"fmt"
	"strings"
)

// frame is a chart being drawn.
type frame struct {
	b     bytes.Buffer
	width float64
	top   float64 // of the plotting area
}

func newFrame(title string, w int) *frame {
	f := &frame{width: float64(w), top: marginTop}
	f.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">`,
		w, height, w, height)
	f.printf(`<rect width="%d" height="%d" fill="#ffffff"/>`, w, height)
	f.text(f.width/2, 22, "middle", ` font-size="14" font-weight="bold"`, title)
	return f
}

func (f *frame) printf(format string, args ...any) {
	fmt.Fprintf(&f.b, format, args...)
	f.b.WriteByte('\n')
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

func (f *frame) text(x, y float64, anchor, attrs, s string) {
	f.printf(`<text x="%s" y="%s" text-anchor="%s" fill="#222222"%s>%s</text>`, px(x), px(y), anchor, attrs, escape(s))
}

// legend names the series in rows below the title and moves the plot down.
func (f *frame) legend(names []string) {
	const glyph = 6.7 // width of a letter, about
	x, rows := float64(marginLeft), 0
	for i, n := range names {
		if n == "" {
			continue
		}
		w := 24 + glyph*float64(len(n))
		if rows == 0 {
			rows = 1
		} else if x+w > f.width-marginRight {
			x, rows = marginLeft, rows+1
		}
		y := float64(marginTop + (rows-1)*legendLine)
		f.printf(`<rect x="%s" y="%s" width="12" height="4" fill="%s"/>`, px(x), px(y-6), colors[i%len(colors)])
		f.text(x+16, y, "start", "", n)
		x += w + 8
	}
	f.top += float64(rows * legendLine)
}

// axes draws the frame of the plot, the ticks of y and the labels.
func (f *frame) axes(x, y *axis, xLabel, yLabel string) {
	for _, t := range y.ticks() {
		at := y.at(t)
		f.printf(`<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="#dddddd"/>`, px(x.from), px(at), px(x.to), px(at))
		f.text(x.from-6, at+4, "end", "", number(t))
	}
	f.printf(`<path d="M%s %sV%sH%s" fill="none" stroke="#444444"/>`, px(x.from), px(y.to), px(y.from), px(x.to))
	if xLabel != "" {
		f.text((x.from+x.to)/2, height-10, "middle", "", xLabel)
	}
	if yLabel != "" {
		mid := (y.from + y.to) / 2
		f.text(14, mid, "middle", fmt.Sprintf(` transform="rotate(-90 14 %s)"`, px(mid)), yLabel)
	}
}

// xTick draws a tick; the label may have two lines.
func (f *frame) xTick(at float64, label string) {
	const y = float64(height - marginBottom)
	f.printf(`<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="#444444"/>`, px(at), px(y), px(at), px(y+4))
	for i, line := range strings.SplitN(label, "\n", 2) {
		f.text(at, y+18+float64(i*tickLine), "middle", "", line)
	}
}

func (f *frame) finish() []byte {
	f.printf(`</svg>`)
	return f.b.Bytes()
}
