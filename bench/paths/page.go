package paths

import (
	"bytes"
	"fmt"
	"slices"
)

// page is the report.
func (r *Report) page() []byte {
	var b bytes.Buffer
	m := &r.Machine
	fmt.Fprintf(&b, `# Paths that are not perfect

goroce, TCP and quic-go over the project's own link in user space, between two network namespaces of one machine. Made by

    %s

as %s at %s, %s: %s, %d processors, %s, %s.

`, r.Command, m.User, m.Commit, m.Time, m.CPU, m.Cores, m.Kernel, m.Go)
	cols := contenders()
	r.table(&b, "Goodput", cols, func(x *Result) float64 { return x.Mbps })
	return b.Bytes()
}

// median is the middle of what the rounds of a cell gave that count; false if none does.
func (r *Report) median(row, contender string, of func(*Result) float64) (float64, bool) {
	var v []float64
	for i := range r.Results {
		x := &r.Results[i]
		if x.Row == row && x.Contender == contender && x.Error == "" && x.Behind == "" {
			v = append(v, of(x))
		}
	}
	if len(v) == 0 {
		return 0, false
	}
	slices.Sort(v)
	return v[len(v)/2], true
}

func (r *Report) table(b *bytes.Buffer, title string, cols []Contender, of func(*Result) float64) {
	fmt.Fprintf(b, "## %s\n\n| path |", title)
	for _, c := range cols {
		fmt.Fprintf(b, " %s |", c.Name)
	}
	b.WriteString("\n|---|")
	for range cols {
		b.WriteString("---|")
	}
	b.WriteByte('\n')
	for _, row := range append([]Row{Calibration()}, Rows()...) {
		line, some := fmt.Sprintf("| %s |", row.Name), false
		for _, c := range cols {
			v, ok := r.median(row.Name, c.Name, of)
			if ok {
				line += fmt.Sprintf(" %.0f |", v)
			} else {
				line += " |"
			}
			some = some || ok
		}
		if some {
			fmt.Fprintln(b, line)
		}
	}
	b.WriteByte('\n')
}
