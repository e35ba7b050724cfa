package programs

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/goroce/goroce/internal/report"
)

// Result of a case.
type Result = report.Outcome

// The results. A skip says in Detail why.
const (
	Pass = report.Pass
	Fail = report.Fail
	Skip = report.Skip
)

// Row is one case at one place.
type Row struct {
	Suite   string  `json:"suite"`
	Group   string  `json:"group"`
	Program string  `json:"program"`
	Label   string  `json:"label,omitempty"`
	Where   string  `json:"where"`
	Result  Result  `json:"result"`
	Detail  string  `json:"detail,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Name names a row in one line.
func (r Row) Name() string {
	return strings.TrimSpace(fmt.Sprintf("%s, %s, %s: %s %s", r.Suite, r.Group, r.Where, r.Program, r.Label))
}

// Report collects rows; it may be used from several goroutines.
type Report struct {
	// OnRow, if not nil, sees each row as it comes, one at a time.
	OnRow func(Row)

	mu   sync.Mutex
	rows []Row
}

// Add appends a row.
func (r *Report) Add(row Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row)
	if r.OnRow != nil {
		r.OnRow(row)
	}
}

// Rows returns the rows, in the order of groups and programs.
func (r *Report) Rows() []Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := slices.Clone(r.rows)
	slices.SortStableFunc(rows, func(a, b Row) int {
		if d := slices.Index(Groups(), a.Group) - slices.Index(Groups(), b.Group); d != 0 {
			return d
		}
		return strings.Compare(a.Program, b.Program)
	})
	return rows
}

// Summary is the line that closes a run.
func (r *Report) Summary() string { return count(r.Rows()).String() }

// Failed returns how many have failed.
func (r *Report) Failed() int { return count(r.Rows()).Failed }

func count(rows []Row) (c report.Tally) {
	for _, row := range rows {
		c.Add(row.Result)
	}
	return c
}

// WriteJSON writes all rows to a file.
func (r *Report) WriteJSON(path string) error { return report.WriteJSON(path, r.Rows()) }

// WriteTable writes a line for each program, with a column for each stage, and a line for each
// failure and skip with its reason. Of pyverbs, which has hundreds of tests, there is one
// line.
func (r *Report) WriteTable(w io.Writer, stages []*Stage) error {
	rows := r.Rows()
	var b strings.Builder
	columns := []string{"of", "program"}
	for _, s := range stages {
		columns = append(columns, s.Suite+": version", "passed", "failed", "skipped")
	}
	t := report.Begin(&b, columns...)
	for len(rows) > 0 {
		first := rows[0]
		same := func(x Row) bool {
			return x.Group == first.Group && (x.Program == first.Program || first.Group == groupPyverbs)
		}
		n := slices.IndexFunc(rows, func(x Row) bool { return !same(x) })
		if n < 0 {
			n = len(rows)
		}
		program := "`" + first.Program + "`"
		if first.Group == groupPyverbs {
			program = "its test suite"
		}
		line := []any{first.Group, program}
		for _, s := range stages {
			c := report.Tally{}
			for _, row := range rows[:n] {
				if row.Suite == s.Suite {
					c.Add(row.Result)
				}
			}
			line = append(line, s.Version(first.Group), c.Passed, c.Failed, c.Skipped)
		}
		t.Row(line...)
		rows = rows[n:]
	}
	for _, kind := range []Result{Fail, Skip} {
		var lines []string
		for _, row := range r.Rows() {
			if row.Result == kind && (kind == Fail || row.Group != groupPyverbs) {
				lines = append(lines, fmt.Sprintf("- %s: %s", row.Name(), firstLine(row.Detail)))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n\n%s\n", map[Result]string{Fail: "Failed", Skip: "Skipped"}[kind],
				strings.Join(lines, "\n"))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.Summary())
	_, err := io.WriteString(w, b.String())
	return err
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
