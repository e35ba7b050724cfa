package micro

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/conformance/matrix"
)

// Data is a run: the rows of the group "micro", for each kernel and link in both roles.
type Data struct {
	Machine report.Machine `json:"machine"`
	Command string         `json:"command"`
	Guests  []string       `json:"guests"` // what they run
	Times   int            `json:"times"`  // how often a reaction was measured in a row
	Rows    []matrix.Row   `json:"rows"`
}

// dataFile is where the data is beside the page.
const dataFile = "micro.json"

// Read reads the data of a folder that Write has written.
func Read(dir string) (*Data, error) {
	b, err := os.ReadFile(filepath.Join(dir, dataFile))
	if err != nil {
		return nil, err
	}
	d := new(Data)
	if err := json.Unmarshal(b, d); err != nil {
		return nil, fmt.Errorf("%s: %w", dataFile, err)
	}
	return d, nil
}

// Write writes the page, the charts and the data to a folder, and removes charts that are no longer
// made.
func (d *Data) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	files := map[string][]byte{dataFile: append(b, '\n'), "README.md": d.Markdown()}
	for name, c := range d.Charts() {
		files[name] = c
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return err
	}
	for _, f := range old {
		if files[filepath.Base(f)] == nil {
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// side is one of the two of a row.
type side string

const (
	requester side = "requester"
	responder side = "responder"
)

// whose returns the implementation that had a side in a row.
func whose(row *matrix.Row, s side) string {
	if row.Role == string(s) {
		return "goroce " + row.Link
	}
	return row.Kernel
}

// Columns are the implementations, goroce's links first.
func (d *Data) Columns() []string {
	seen := map[string]bool{}
	for i := range d.Rows {
		seen[whose(&d.Rows[i], requester)], seen[whose(&d.Rows[i], responder)] = true, true
	}
	var out []string
	for c := range seen {
		out = append(out, c)
	}
	order := []string{"goroce udp", "goroce packet", "goroce xdp"}
	slices.SortFunc(out, func(a, b string) int {
		i, j := slices.Index(order, a), slices.Index(order, b)
		switch {
		case i >= 0 && j >= 0:
			return i - j
		case i >= 0:
			return -1
		case j >= 0:
			return 1
		}
		return cmp.Or(len(a)-len(b), strings.Compare(a, b))
	})
	return out
}

// rows are those of a behaviour in which an implementation had a side.
func (d *Data) rows(op, who string, s side) (out []*matrix.Row) {
	for i := range d.Rows {
		if r := &d.Rows[i]; r.Op == op && whose(r, s) == who {
			out = append(out, r)
		}
	}
	return out
}

// samples are all that an implementation has of a number, sorted.
func (d *Data) samples(op, key, who string, s side) (out []float64) {
	for _, r := range d.rows(op, who, s) {
		out = append(out, r.Samples[key]...)
	}
	slices.Sort(out)
	return out
}

// intervals are the times between the transmissions i and i+1 of a packet that is always lost: nil
// if fewer than half of the connections of an implementation have got so far.
func (d *Data) intervals(i int, who string) []float64 {
	of := func(i int) []float64 {
		return d.samples("timeout series", fmt.Sprintf("interval%d_ms", i), who, requester)
	}
	if v := of(i); 2*len(v) >= len(of(1)) {
		return v
	}
	return nil
}

// quantile is that of sorted values; q is from 0 to 1.
func quantile(sorted []float64, q float64) float64 {
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
