package programs

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/goroce/goroce/internal/report"
)

// Column is the suite of pyverbs in one place.
type Column struct {
	Name    string // as "rxe 6.1, rdma-core 44"
	Results []PyResult
}

// WriteComparison writes a table with a line for each test that ran anywhere, and a list of those
// that none could run. Tests in which the first column of a pair is worse than the second are
// marked: columns come in pairs, ours and rxe's.
func WriteComparison(w io.Writer, columns []Column) error {
	type cell = map[string]PyResult // by column
	tests := map[string]cell{}
	for _, c := range columns {
		for _, r := range c.Results {
			if tests[r.Test] == nil {
				tests[r.Test] = cell{}
			}
			tests[r.Test][c.Name] = r
		}
	}
	var b strings.Builder
	head := []string{""}
	for _, c := range columns {
		head = append(head, c.Name)
	}
	t := report.Begin(&b, head...)
	for _, kind := range []Result{Pass, Fail, Skip} {
		line := []any{map[Result]string{Pass: "passed", Fail: "failed", Skip: "skipped"}[kind]}
		for _, c := range columns {
			n := 0
			for _, r := range c.Results {
				if r.Result == kind {
					n++
				}
			}
			line = append(line, n)
		}
		t.Row(line...)
	}
	fmt.Fprintln(&b)
	head[0] = "test"
	t = report.Begin(&b, head...)
	var worse, failed []string
	none := map[string][]string{} // tests that ran nowhere, by the first reason
	for _, test := range slices.Sorted(maps.Keys(tests)) {
		c := tests[test]
		ran := false
		for _, r := range c {
			ran = ran || r.Result != Skip
		}
		if !ran {
			why := ""
			for _, col := range columns {
				if r, ok := c[col.Name]; ok && why == "" {
					why = r.Detail
				}
			}
			none[why] = append(none[why], shortName(test))
			continue
		}
		line := []any{shortName(test)}
		for i, col := range columns {
			r, ok := c[col.Name]
			line = append(line, r.Result) // none if it is not in this version of the suite
			if i%2 == 0 && i+1 < len(columns) {
				if other := c[columns[i+1].Name]; other.Result == Pass && r.Result != Pass {
					worse = append(worse,
						fmt.Sprintf("- %s (%s): %s: %s", shortName(test), col.Name, r.Result, r.Detail))
				}
			}
			if ok && r.Result == Fail {
				failed = append(failed, fmt.Sprintf("- %s (%s): %s", shortName(test), col.Name, r.Detail))
			}
		}
		t.Row(line...)
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"Passes on rxe and not here", worse}, {"Failures, here and there", failed}} {
		fmt.Fprintf(&b, "\n%s: %d.\n", list.title, len(list.lines))
		if len(list.lines) > 0 {
			fmt.Fprintf(&b, "\n%s\n", strings.Join(list.lines, "\n"))
		}
	}
	fmt.Fprintf(&b, "\nTests that none of them runs, by reason:\n\n")
	for _, why := range slices.Sorted(maps.Keys(none)) {
		fmt.Fprintf(&b, "- %s: %s\n", why, strings.Join(none[why], ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shortName leaves out what all names have.
func shortName(test string) string { return "`" + strings.TrimPrefix(test, "tests.") + "`" }
