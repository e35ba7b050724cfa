package report

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strings"
)

// Alpha is the probability of a difference by chance below which it counts: benchstat's.
const Alpha = 0.05

// Difference is a figure of two runs.
type Difference struct {
	Case     string
	Old, New *Figure
	P        float64 // that such a difference is chance
}

// Differs reports whether the difference is more than chance.
func (d *Difference) Differs() bool { return d.P < Alpha }

// Change is by what the median has changed, as a part of what it was; NaN if that was 0.
func (d *Difference) Change() float64 {
	if d.Old.Median == 0 {
		return math.NaN()
	}
	return d.New.Median/d.Old.Median - 1
}

// compare returns the figures that both runs have, in the order of the first.
func compare(old, now *Report) []Difference {
	var ds []Difference
	for i := range old.Cases {
		a := &old.Cases[i]
		b := now.Find(func(c *Case) bool { return c.Item == a.Item && c.Name == a.Name })
		if b == nil {
			continue
		}
		for k := range a.Figures {
			f := &a.Figures[k]
			if g := b.Get(f.Name); g != nil {
				ds = append(ds,
					Difference{Case: a.Item + ": " + a.Name, Old: f, New: g, P: rankSum(f.Rounds, g.Rounds)})
			}
		}
	}
	return ds
}

// CompareOptions say what a comparison shows.
type CompareOptions struct {
	All     bool           // also what does not differ
	Cases   *regexp.Regexp // only these; nil for all
	Figures *regexp.Regexp
}

// Comparison prints two runs beside each other: the figures that differ by more than chance, and
// for each kind of figure how it has changed over all cases.
func Comparison(old, now *Report, o CompareOptions) []byte {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("| | old | new |\n|---|---|---|")
	for _, x := range []struct {
		what string
		of   func(*Report) any
	}{
		{"commit", func(r *Report) any { return r.Machine.Commit }},
		{"time", func(r *Report) any { return r.Machine.Time }},
		{"CPU", func(r *Report) any { return fmt.Sprintf("%s, %d cores", r.Machine.CPU, r.Machine.Cores) }},
		{"kernel", func(r *Report) any { return r.Machine.Kernel }},
		{"network", func(r *Report) any { return r.Network }},
		{"rounds", func(r *Report) any { return fmt.Sprintf("%d of %d ms", r.Rounds, r.RoundMs) }},
		{"others took", func(r *Report) any { return fmt.Sprintf("%.0f %% of the machine", 100*r.Machine.Foreign) }},
	} {
		p("| %s | %v | %v |", x.what, x.of(old), x.of(now))
	}
	p("\n| | figure | old | new | change | p |\n|---|---|---|---|---|---|")
	all, differ := 0, 0
	var kinds []string
	means := map[string]*geomean{}
	for _, d := range compare(old, now) {
		if o.Cases != nil && !o.Cases.MatchString(d.Case) || o.Figures != nil && !o.Figures.MatchString(d.Old.Name) {
			continue
		}
		all++
		change := "~"
		if d.Differs() {
			differ++
			change = percent(d.Change())
		}
		if d.Differs() || o.All {
			p("| %s | %s | %s | %s | %s | p=%.3f n=%d+%d |", d.Case,
				strings.TrimSpace(d.Old.Name+", "+d.Old.Unit), d.Old.spread(), d.New.spread(), change,
				d.P, len(d.Old.Rounds), len(d.New.Rounds))
		}
		if means[d.Old.Name] == nil {
			means[d.Old.Name] = &geomean{}
			kinds = append(kinds, d.Old.Name)
		}
		means[d.Old.Name].add(d.New.Median / d.Old.Median)
	}
	p("\n| figure | cases | geometric mean of new/old |\n|---|---|---|")
	for _, k := range kinds {
		if m := means[k]; m.n > 1 {
			p("| %s | %d | %s |", k, m.n, percent(math.Exp(m.logs/float64(m.n))-1))
		}
	}
	p("\n%d of %d figures differ (p < %.2f). By chance alone about %.0f would.", differ, all, Alpha, Alpha*float64(all))
	if splits(old.Rounds+now.Rounds, old.Rounds) < 2/Alpha {
		p("So few rounds cannot show a difference: it takes at least 4 in each run.")
	}
	return b.Bytes()
}

// geomean gathers ratios for their geometric mean. Those of 0 are left out.
type geomean struct {
	n    int
	logs float64
}

func (g *geomean) add(ratio float64) {
	if ratio > 0 && !math.IsInf(ratio, 0) {
		g.n++
		g.logs += math.Log(ratio)
	}
}

// percent prints a change.
func percent(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%+.1f %%", 100*x)
}

// Spread is how far the rounds are from the median, at most, as a part of it; NaN if that is 0.
func (f *Figure) Spread() float64 {
	if f.Median == 0 {
		return math.NaN()
	}
	return math.Max(f.Max-f.Median, f.Median-f.Min) / math.Abs(f.Median)
}

// spread is the median, and the spread of the rounds in percent.
func (f *Figure) spread() string {
	if s := f.Spread(); !math.IsNaN(s) {
		return fmt.Sprintf("%s ± %.0f %%", num(f.Median), 100*s)
	}
	return num(f.Median)
}
