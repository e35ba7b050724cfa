package report

import (
	"math"
	"strconv"
	"strings"
)

// axis maps values to pixels.
type axis struct {
	lo, hi   float64
	from, to float64 // pixels
	log      bool
}

func (a *axis) at(v float64) float64 {
	lo, hi := a.lo, a.hi
	if a.log {
		lo, hi, v = math.Log10(lo), math.Log10(hi), math.Log10(max(v, a.lo))
	}
	return a.from + (v-lo)/(hi-lo)*(a.to-a.from)
}

// ticks returns round values between lo and hi.
func (a *axis) ticks() []float64 {
	var t []float64
	if a.log {
		for e := math.Floor(math.Log10(a.lo)); e <= math.Ceil(math.Log10(a.hi)); e++ {
			if v := math.Pow(10, e); v >= a.lo*(1-1e-9) && v <= a.hi*(1+1e-9) {
				t = append(t, v)
			}
		}
		return t
	}
	step := niceStep((a.hi - a.lo) / 8)
	for i := math.Ceil(a.lo/step - 1e-9); i*step <= a.hi+step*1e-9; i++ {
		t = append(t, i*step+0) // no -0
	}
	return t
}

// niceStep returns the next 1, 2 or 5 times a power of ten.
func niceStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*p*(1+1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// fit makes the axis hold the values from lo to hi with round ends.
func (a *axis) fit(lo, hi float64) {
	if a.log {
		lo = max(lo, 1e-9)
		a.lo, a.hi = math.Pow(10, math.Floor(math.Log10(lo))), math.Pow(10, math.Ceil(math.Log10(max(hi, lo*1.01))))
		return
	}
	if lo > 0 {
		lo = 0
	}
	if hi <= lo {
		hi = lo + 1
	}
	step := niceStep((hi - lo) / 8)
	a.lo, a.hi = math.Floor(lo/step+1e-9)*step, math.Ceil(hi/step-1e-9)*step
}

// number prints a tick: 1500000 as 1.5M, 0.25 as 0.25.
func number(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G"} {
		if math.Abs(v) < 9999.5 && (math.Abs(v) < 999.5 || u == "k" && math.Mod(v, 1000) != 0) {
			break
		}
		v, unit = v/1000, u
	}
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64) + unit
}

// px prints a coordinate.
func px(v float64) string {
	s := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(s, ".0")
}
