package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wellFormed checks that b is XML and returns how often each element occurs.
func wellFormed(t *testing.T, b []byte) map[string]int {
	count := map[string]int{}
	d := xml.NewDecoder(strings.NewReader(string(b)))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		require.NoError(t, err)
		if s, ok := tok.(xml.StartElement); ok {
			count[s.Name.Local]++
			for _, a := range s.Attr {
				require.NotContains(t, a.Value, "NaN")
				require.NotContains(t, a.Value, "Inf")
			}
		}
	}
}

func TestChart(t *testing.T) {
	c := Chart{
		Title: `a < b & "c"`, XLabel: "ms", YLabel: "Gb/s",
		Series: []Series{
			{Name: "one", X: []float64{0, 1, 2}, Y: []float64{0, 20, 40}},
			{Name: "two", X: []float64{0, 2}, Y: []float64{5, 5}, Dashed: true},
			{X: []float64{1}, Y: []float64{7}, Points: true},
		},
	}
	svg := c.SVG()
	n := wellFormed(t, svg)
	require.Equal(t, 3, n["path"], "two series and the frame")
	require.Equal(t, 1, n["circle"])
	require.Contains(t, string(svg), "M64 312L380 184L696 56", "the corners of the plot, and its middle")
	require.Equal(t, svg, c.SVG())
}

func TestChartWithoutData(t *testing.T) {
	wellFormed(t, (&Chart{}).SVG())
	wellFormed(t, (&Bars{}).SVG())
	wellFormed(t, (&Chart{LogX: true, LogY: true, Series: []Series{{X: []float64{0, 5}, Y: []float64{0, 0}}}}).SVG())
	wellFormed(t, (&Chart{Series: []Series{{X: []float64{3}, Y: []float64{3}}}}).SVG())
}

func TestBars(t *testing.T) {
	b := Bars{
		Groups: []string{"2", "4"},
		Series: []BarSeries{{"none", []float64{1, 2}}, {"dcqcn", []float64{math.NaN(), 4}}},
	}
	n := wellFormed(t, b.SVG())
	require.Equal(t, 1+2+3, n["rect"], "background, legend, bars")
}

func TestTicks(t *testing.T) {
	a := axis{}
	a.fit(0, 37)
	require.Equal(t, []float64{0, 5, 10, 15, 20, 25, 30, 35, 40}, a.ticks())
	require.False(t, math.Signbit(a.ticks()[0]), "printed as 0")
	a.fit(3, 3.3)
	require.Equal(t, 0.0, a.lo)
	a = axis{log: true}
	a.fit(3, 4200)
	require.Equal(t, []float64{1, 10, 100, 1000, 10000}, a.ticks())
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.25: "0.25", 40: "40", 1500: "1500", 2000: "2k", 65536: "65.536k", 1.5e6: "1.5M",
		3e9: "3G", -20000: "-20k",
	} {
		require.Equal(t, want, number(v))
	}
}
