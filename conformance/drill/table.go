package drill

import (
	"fmt"
	"io"
	"strings"

	"github.com/goroce/goroce/internal/report"
)

// Table is the results of drills on several targets.
type Table struct {
	Targets []string // columns
	About   []string // a line for each target: what it is
	Drills  []*Drill // rows
	results map[string]map[string]Result
}

// NewTable returns an empty table.
func NewTable(drills []*Drill) *Table {
	return &Table{Drills: drills, results: map[string]map[string]Result{}}
}

// AddTarget adds a column.
func (t *Table) AddTarget(name, about string) {
	t.Targets, t.About = append(t.Targets, name), append(t.About, about)
}

// Add enters a result.
func (t *Table) Add(r Result) {
	if t.results[r.Drill.Name] == nil {
		t.results[r.Drill.Name] = map[string]Result{}
	}
	t.results[r.Drill.Name][r.Target] = r
}

// Result returns an entry, and false if there is none.
func (t *Table) Result(d *Drill, target string) (Result, bool) {
	r, ok := t.results[d.Name][target]
	return r, ok
}

// Failed returns how many entries are neither as specified nor as known.
func (t *Table) Failed() (n int) {
	for _, row := range t.results {
		for _, r := range row {
			if !r.OK() {
				n++
			}
		}
	}
	return n
}

var cells = map[Verdict]string{Pass: "ok", Deviates: "differs", Fail: "**FAIL**", Skip: "-", Broken: "**error**"}

// WriteMarkdown writes the table, and behind it each difference by its name.
func (t *Table) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("\"ok\" is as the specification has it; \"differs\" is a difference that is known, and named below; \"-\" says that the target lacks what the drill needs.\n\n")
	for i, name := range t.Targets {
		fmt.Fprintf(&b, "- %s: %s; %s\n", name, t.About[i], t.Summary(i))
	}
	b.WriteString("\n")
	results := report.Begin(&b, append([]string{"drill", "what it checks", "authority"}, t.Targets...)...)
	for _, d := range t.Drills {
		results.Row(report.Cells(t.Targets, func(target string) string {
			if r, ok := t.Result(d, target); ok {
				return cells[r.Verdict]
			}
			return ""
		}, "`"+d.Name+"`", d.Title, authority(d))...)
	}
	b.WriteString("\n## Differences from the specification\n\nRows are those of [docs/rxe.md](../docs/rxe.md).\n\n")
	named := report.Begin(&b, "drill", "target", "row", "difference")
	for _, d := range t.Drills {
		for _, n := range t.Targets {
			if r, ok := t.Result(d, n); ok {
				differences(named, r)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func differences(t *report.Table, r Result) {
	switch r.Verdict {
	case Deviates:
		for _, x := range r.Deviations {
			row := ""
			if x.Row > 0 {
				row = fmt.Sprint(x.Row)
			}
			t.Row("`"+r.Drill.Name+"`", r.Target, row, x.Text)
		}
	case Fail, Broken:
		first, _, _ := strings.Cut(r.Text, "\n")
		t.Row("`"+r.Drill.Name+"`", r.Target, "", fmt.Sprintf("**%s**: %s", r.Verdict, first))
	}
}

// Summary counts the verdicts of a column.
func (t *Table) Summary(column int) string {
	target := t.Targets[column]
	n := map[Verdict]int{}
	for _, d := range t.Drills {
		if r, ok := t.Result(d, target); ok {
			n[r.Verdict]++
		}
	}
	s := fmt.Sprintf("%d ok, %d differ", n[Pass], n[Deviates])
	for _, v := range []Verdict{Fail, Broken, Skip} {
		if n[v] > 0 {
			s += fmt.Sprintf(", %d %s", n[v], v)
		}
	}
	return s
}

func authority(d *Drill) string {
	var s []string
	for _, a := range d.Authority {
		if a.Kind == Clause {
			s = append(s, a.Text)
		} else {
			s = append(s, "seen on "+string(a.Kind)+" "+a.Text)
		}
	}
	return strings.Join(s, "; ")
}
