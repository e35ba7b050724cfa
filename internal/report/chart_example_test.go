package report_test

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/internal/report"
)

func ExampleChart() {
	c := report.Chart{
		Title: "rate", XLabel: "time, us", YLabel: "Gb/s",
		Series: []report.Series{{Name: "flow", X: []float64{0, 55, 110}, Y: []float64{20, 30, 35}}},
	}
	fmt.Println(strings.HasPrefix(string(c.SVG()), "<svg"))
	// Output: true
}
