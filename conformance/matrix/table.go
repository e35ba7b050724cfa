package matrix

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/goroce/goroce/internal/report"
)

// tally counts rows by their result.
type tally struct {
	report.Tally
	inconclusive int
}

func (c *tally) add(r Result) {
	c.Add(r)
	if r == Inconclusive {
		c.inconclusive++
	}
}

func (c tally) String() string {
	switch {
	case c.Failed > 0:
		return fmt.Sprintf("%d/%d FAIL", c.Passed, c.Passed+c.Failed)
	case c.inconclusive > 0:
		return fmt.Sprintf("%d (inconclusive %d)", c.Passed, c.inconclusive)
	case c.Passed == 0 && c.Skipped > 0:
		return "skip"
	case c.Passed == 0:
		return "-"
	case c.Skipped > 0:
		return fmt.Sprintf("ok %d (skip %d)", c.Passed, c.Skipped)
	case c.Passed == 1:
		return "ok"
	}
	return fmt.Sprintf("ok %d", c.Passed)
}

// column is a kernel and the subject's role.
type column struct{ kernel, role string }

// columnOf returns the column of a row. Tools have other words for the same two roles.
func columnOf(row Row) column {
	switch row.Role {
	case "client":
		return column{row.Kernel, string(requester)}
	case "server":
		return column{row.Kernel, string(responder)}
	}
	return column{row.Kernel, row.Role}
}

// groupOrder is the order of the table's sections; other groups follow.
var groupOrder = []string{"links", "tools", "rdmacm", "cmfaults", "operations", "faults", "errors", "micro",
	"canaries", "capture", "guests"}

func byOrder(order []string) func(a, b string) int {
	place := func(s string) int {
		if i := slices.Index(order, s); i >= 0 {
			return i
		}
		return len(order)
	}
	return func(a, b string) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b)) }
}

// grid is a part of the table: lines by name, each with a tally for each column and link.
type grid struct {
	lines []string
	cells map[string]map[column]map[string]*tally
}

func (g *grid) add(line string, row Row) {
	if g.cells == nil {
		g.cells = map[string]map[column]map[string]*tally{}
	}
	if g.cells[line] == nil {
		g.cells[line] = map[column]map[string]*tally{}
		g.lines = append(g.lines, line)
	}
	c := columnOf(row)
	if g.cells[line][c] == nil {
		g.cells[line][c] = map[string]*tally{}
	}
	if g.cells[line][c][row.Link] == nil {
		g.cells[line][c][row.Link] = new(tally)
	}
	g.cells[line][c][row.Link].add(row.Result)
}

// cell is what a line has in a column: one tally where all links have the same.
func (g *grid) cell(line string, c column, links []string) string {
	at := g.cells[line][c]
	if len(at) == 0 {
		return ""
	}
	distinct := map[tally]bool{}
	var each []string
	for _, l := range slices.SortedFunc(maps.Keys(at), byOrder(links)) {
		distinct[*at[l]] = true
		each = append(each, fmt.Sprintf("%s %v", l, at[l]))
	}
	if len(distinct) == 1 {
		for t := range distinct {
			return t.String()
		}
	}
	return strings.Join(each, ", ")
}

func (g *grid) columns() []column {
	seen := map[column]bool{}
	for _, cells := range g.cells {
		for c := range cells {
			seen[c] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b column) int {
		return cmp.Or(cmp.Compare(len(a.kernel), len(b.kernel)), cmp.Compare(a.kernel, b.kernel),
			cmp.Compare(b.role, a.role))
	})
}

func (g *grid) write(w io.Writer, title string, links []string) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "\n%s\t", title)
	cols := g.columns()
	for _, c := range cols {
		fmt.Fprintf(tw, "%s %s\t", c.kernel, c.role)
	}
	fmt.Fprintln(tw)
	for _, line := range g.lines {
		fmt.Fprintf(tw, "  %s\t", line)
		for _, c := range cols {
			fmt.Fprintf(tw, "%s\t", g.cell(line, c, links))
		}
		fmt.Fprintln(tw)
	}
	tw.Flush()
}

// WriteTable prints the number of rows of each group on each link; then a section for each
// group with a line for each operation, tool or scenario, where a number is that of each link;
// then what was skipped and what was tried again, and why, and every failure in full.
func (r *Report) WriteTable(w io.Writer) {
	rows := r.Rows()
	// Which of the kernels was ahead is no matter of the table's.
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(a.Kernel, b.Kernel) })
	var links, groups []string
	for _, row := range rows {
		if !slices.Contains(links, row.Link) {
			links = append(links, row.Link)
		}
		if !slices.Contains(groups, row.Group) {
			groups = append(groups, row.Group)
		}
	}
	slices.SortFunc(groups, byOrder(groupOrder))
	slices.SortFunc(links, byOrder(linkOrder))
	var all grid
	sections := map[string]*grid{}
	for _, g := range groups {
		sections[g] = new(grid)
		for _, l := range links {
			for _, row := range rows {
				if row.Group != g || row.Link != l {
					continue
				}
				all.add(g+", "+l, row)
				// "drop" of all positions goes on one line.
				what, _, _ := strings.Cut(row.Fault, " ")
				sections[g].add(strings.TrimSpace(row.Op+" "+what), row)
			}
		}
	}
	all.write(w, "ALL", links)
	for _, g := range groups {
		sections[g].write(w, strings.ToUpper(g), links)
	}
	writeReasons(w, rows, links)
	writeMeasured(w, rows)
	for _, row := range rows {
		if row.Result == Fail || row.Result == Inconclusive {
			fmt.Fprintf(w, "\n%s %s\n     %s\n", strings.ToUpper(string(row.Result)), row.Label(),
				strings.ReplaceAll(strings.TrimSpace(row.Detail+"\n"+row.Ladder), "\n", "\n     "))
		}
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped", r.Count(Pass), r.Count(Fail), r.Count(Skip))
	if n := r.Count(Inconclusive); n > 0 {
		fmt.Fprintf(w, ", %d inconclusive", n)
	}
	fmt.Fprintln(w)
}

// linkOrder is the order in which links are named.
var linkOrder = []string{"udp", "packet", "xdp"}

// writeReasons says why rows were skipped, and which passed at a later try only.
func writeReasons(w io.Writer, rows []Row, links []string) {
	type skip struct{ group, why string }
	on := map[skip]map[string]int{}
	for _, row := range rows {
		if row.Result == Skip {
			k := skip{row.Group, row.Detail}
			if on[k] == nil {
				on[k] = map[string]int{}
			}
			on[k][row.Link]++
		}
	}
	order := slices.SortedFunc(maps.Keys(on), func(a, b skip) int {
		return cmp.Or(byOrder(groupOrder)(a.group, b.group), cmp.Compare(a.why, b.why))
	})
	for i, k := range order {
		if i == 0 {
			fmt.Fprintln(w, "\nSKIPPED")
		}
		var n []string
		for _, l := range slices.SortedFunc(maps.Keys(on[k]), byOrder(links)) {
			n = append(n, fmt.Sprintf("%s %d", l, on[k][l]))
		}
		fmt.Fprintf(w, "  %s: %s (%s)\n", k.group, k.why, strings.Join(n, ", "))
	}
	first := true
	for _, row := range rows {
		if row.Retried == "" {
			continue
		}
		if first {
			fmt.Fprintln(w, "\nTRIED AGAIN")
			first = false
		}
		what, _, _ := strings.Cut(row.Retried, "\n")
		fmt.Fprintf(w, "  %s %s: %s\n", row.Result, row.Label(), what)
	}
}

// writeMeasured prints the numbers that rows have found.
func writeMeasured(w io.Writer, rows []Row) {
	first := true
	for _, row := range rows {
		if len(row.Measured) == 0 {
			continue
		}
		if first {
			fmt.Fprintln(w, "\nMEASURED")
			first = false
		}
		fmt.Fprintf(w, "  %s %s, %s as %s: %v\n", row.Kernel, row.Link, row.Op, row.Role, measured(row.Measured))
	}
}
