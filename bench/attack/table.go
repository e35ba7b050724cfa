package attack

import (
	"fmt"
	"io"

	"github.com/goroce/goroce/internal/report"
)

// figure is what a client did, in words.
func (r *Result) figure(v float64) string {
	switch r.Does {
	case transfers:
		return fmt.Sprintf("%.2f Gb/s", v)
	case dials:
		return fmt.Sprintf("%.0f dials/s", v)
	}
	return fmt.Sprintf("sends %.1f MB/s", v)
}

// during is what it did during the attack.
func (r *Result) during() string {
	s := r.figure(r.During)
	if r.Ended != "" {
		return "**the connection ended**"
	}
	if r.Failed > 0 {
		s += fmt.Sprintf(", %d failed", r.Failed)
	}
	return s
}

// WriteTable writes the table. If old is not empty, it has what another commit, of that name, did.
func WriteTable(w io.Writer, results, old []Result, name string) {
	columns := []string{"sent", "the attacker knows", "packets/s", "before", "during", "longest operation",
		"CPU of the server", "answered"}
	if len(old) > 0 {
		columns = append(columns, fmt.Sprintf("at %s: before, during", name))
	}
	t := report.Begin(w, columns...)
	for i := range results {
		r := &results[i]
		line := []any{r.Name, r.Knows, fmt.Sprintf("%.0f", round(r.Rate)), r.figure(r.Before), r.during(),
			fmt.Sprintf("%.0f ms", r.WorstMs), fmt.Sprintf("%.2f → %.2f", r.CPUBefore, r.CPUDuring),
			fmt.Sprintf("%.2f", r.Answered)}
		if len(old) > 0 {
			was := "–"
			for j := range old {
				if o := &old[j]; o.Name == r.Name && o.Asked == r.Asked {
					was = o.figure(o.Before) + ", " + o.during()
				}
			}
			line = append(line, was)
		}
		t.Row(line...)
	}
}

// round rounds a rate: attackers do not keep theirs to the packet.
func round(rate float64) float64 {
	switch {
	case rate >= 5000:
		return float64(int(rate/1000+.5)) * 1000
	}
	return float64(int(rate/100+.5)) * 100
}
