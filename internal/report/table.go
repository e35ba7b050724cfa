// Package report is what reports have in common: tables in Markdown, charts as SVG ([Chart],
// [Bars]), outcomes and their counts. A chart is a function of the data alone, so that one that is
// made again from the same figures shows no difference, and small enough to be committed.
package report

import (
	"fmt"
	"io"
	"strings"
)

// Table is one that has been begun.
type Table struct {
	w       io.Writer
	columns int
}

// Begin writes the head of a table.
func Begin(w io.Writer, columns ...string) *Table {
	t := &Table{w, len(columns)}
	t.Row(Cells(columns, func(s string) string { return s })...)
	fmt.Fprintln(w, "|"+strings.Repeat("---|", t.columns))
	return t
}

// Row writes a line. What a line lacks is empty. A line with more cells than there are columns is a
// mistake, and panics: Markdown would leave them out.
func (t *Table) Row(cells ...any) {
	if len(cells) > t.columns {
		panic(fmt.Sprintf("report: %d cells in %d columns: %q", len(cells), t.columns, cells))
	}
	var b strings.Builder
	b.WriteByte('|')
	for i := range t.columns {
		if i < len(cells) {
			if s := escaped(fmt.Sprint(cells[i])); s != "" {
				b.WriteString(" " + s)
			}
		}
		b.WriteString(" |")
	}
	fmt.Fprintln(t.w, b.String())
}

// Cells returns a cell for each of a list, after others.
func Cells[T any](list []T, cell func(T) string, before ...any) []any {
	for _, x := range list {
		before = append(before, cell(x))
	}
	return before
}

// escaped is text that ends no cell. What is escaped already stays so.
func escaped(s string) string {
	s = strings.ReplaceAll(s, "\n", " ")
	return strings.ReplaceAll(strings.ReplaceAll(s, `\|`, "|"), "|", `\|`)
}

// NumberOf says how many things there are: "1 row", "2 rows".
func NumberOf(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}
