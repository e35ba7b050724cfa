package matrix

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// Result of a check.
type Result string

// The results. A skip says in Detail what was missing.
const (
	Pass Result = "pass"
	Fail Result = "fail"
	Skip Result = "skip"
)

// Row is one check.
type Row struct {
	Kernel    string `json:"kernel"`
	Op        string `json:"tool_or_op"`
	Role      string `json:"role"` // of the subject: requester, responder, client, server
	Link      string `json:"link"` // of the subject
	MTU       int    `json:"mtu"`  // bytes; 0 where the check has none
	Size      int    `json:"size"` // bytes
	Family    string `json:"family"`
	Fault     string `json:"fault"`
	Result    Result `json:"result"`
	Detail    string `json:"detail"`
	Authority string `json:"authority,omitempty"` // what the expectation rests on
	Group     string `json:"group"`               // section of the printed table
}

// Report collects rows; it may be used from several goroutines.
type Report struct {
	mu   sync.Mutex
	rows []Row
	// OnRow, if not nil, sees each row as it comes, one at a time.
	OnRow func(Row)
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

// Rows returns all rows so far.
func (r *Report) Rows() []Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.rows)
}

// Count returns how many rows have the result.
func (r *Report) Count(want Result) int {
	n := 0
	for _, row := range r.Rows() {
		if row.Result == want {
			n++
		}
	}
	return n
}

// WriteJSON writes all rows to a file.
func (r *Report) WriteJSON(path string) error {
	b, err := json.MarshalIndent(r.Rows(), "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// cell counts the rows that share a line and a column of the table.
type cell struct{ pass, fail, skip int }

func (c cell) String() string {
	switch {
	case c.fail > 0:
		return fmt.Sprintf("%d/%d FAIL", c.pass, c.pass+c.fail)
	case c.pass == 0 && c.skip > 0:
		return "skip"
	case c.pass == 0:
		return "-"
	case c.pass == 1:
		return "ok"
	}
	return fmt.Sprintf("ok %d", c.pass)
}

// WriteTable prints a section for each group and link, with one line for each operation,
// tool or scenario, and one column for each kernel and role; then every failure in full.
func (r *Report) WriteTable(w io.Writer) {
	rows := r.Rows()
	type section struct{ group, link string }
	type line struct {
		section
		op, fault string
	}
	type column struct{ kernel, role string }
	cells := map[line]map[column]*cell{}
	var lines []line
	var cols []column
	var sections []section
	for _, row := range rows {
		// "drop" of all positions goes on one line.
		what, _, _ := strings.Cut(row.Fault, " ")
		l, c := line{section{row.Group, row.Link}, row.Op, what}, column{row.Kernel, row.Role}
		switch c.role { // tools have other words for the same two sides
		case "client":
			c.role = "requester"
		case "server":
			c.role = "responder"
		}
		if cells[l] == nil {
			cells[l] = map[column]*cell{}
			lines = append(lines, l)
		}
		if !slices.Contains(cols, c) {
			cols = append(cols, c)
		}
		if !slices.Contains(sections, l.section) {
			sections = append(sections, l.section)
		}
		x := cells[l][c]
		if x == nil {
			x = new(cell)
			cells[l][c] = x
		}
		switch row.Result {
		case Pass:
			x.pass++
		case Fail:
			x.fail++
		case Skip:
			x.skip++
		}
	}
	slices.SortFunc(cols, func(a, b column) int {
		return cmp.Or(cmp.Compare(len(a.kernel), len(b.kernel)), cmp.Compare(a.kernel, b.kernel), cmp.Compare(b.role, a.role))
	})
	allCols := cols
	for _, g := range sections {
		cols := slices.DeleteFunc(slices.Clone(allCols), func(c column) bool {
			for l, row := range cells {
				if l.section == g && row[c] != nil {
					return false
				}
			}
			return true
		})
		tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintf(tw, "\n%s, %s\t", strings.ToUpper(g.group), g.link)
		for _, c := range cols {
			fmt.Fprintf(tw, "%s %s\t", c.kernel, c.role)
		}
		fmt.Fprintln(tw)
		for _, l := range lines {
			if l.section != g {
				continue
			}
			name := strings.TrimSpace(l.op + " " + l.fault)
			fmt.Fprintf(tw, "  %s\t", name)
			for _, c := range cols {
				if x := cells[l][c]; x != nil {
					fmt.Fprintf(tw, "%v\t", x)
				} else {
					fmt.Fprint(tw, "\t")
				}
			}
			fmt.Fprintln(tw)
		}
		tw.Flush()
	}
	for _, row := range rows {
		if row.Result == Fail {
			fmt.Fprintf(w, "\nFAIL %s\n     %s\n", row.Label(), strings.ReplaceAll(strings.TrimSpace(row.Detail), "\n", "\n     "))
		}
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", r.Count(Pass), r.Count(Fail), r.Count(Skip))
}

// Label names a row in one line.
func (row Row) Label() string {
	s := fmt.Sprintf("%s %s %s %s as %s", row.Kernel, row.Link, row.Group, row.Op, row.Role)
	if row.MTU != 0 {
		s += fmt.Sprintf(" mtu %d", row.MTU)
	}
	s += fmt.Sprintf(" size %d %s", row.Size, row.Family)
	if row.Fault != "" {
		s += ", " + row.Fault
	}
	return s
}
