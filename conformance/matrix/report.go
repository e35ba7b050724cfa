package matrix

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
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
	Retried   string `json:"retried,omitempty"`   // what was seen before the try that counts
	Starved   int    `json:"starved,omitempty"`   // tries for which the machine was too slow
	Authority string `json:"authority,omitempty"` // what the expectation rests on
	Group     string `json:"group"`               // section of the printed table
}

// Report collects rows; it may be used from several goroutines.
type Report struct {
	mu      sync.Mutex
	rows    []Row
	stopped bool
	// OnRow, if not nil, sees each row as it comes, one at a time.
	OnRow func(Row)
}

// Add appends a row.
func (r *Report) Add(row Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	r.rows = append(r.rows, row)
	if r.OnRow != nil {
		r.OnRow(row)
	}
}

// Stop makes the report take no more rows.
func (r *Report) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
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

// MissingRows returns the rows that are there on one link and not on another, by their
// labels, with the links that lack them: the matrix is to be the same on each.
func (r *Report) MissingRows(links []string) []string {
	on := map[Row][]string{}
	var order []Row
	for _, row := range r.Rows() {
		if !slices.Contains(links, row.Link) {
			continue
		}
		key := Row{Kernel: row.Kernel, Group: row.Group, Op: row.Op, Role: row.Role, MTU: row.MTU, Size: row.Size, Family: row.Family, Fault: row.Fault}
		if on[key] == nil {
			order = append(order, key)
		}
		on[key] = append(on[key], row.Link)
	}
	var missing []string
	for _, key := range order {
		for _, l := range links {
			if !slices.Contains(on[key], l) {
				key.Link = l
				missing = append(missing, key.Label())
			}
			key.Link = ""
		}
	}
	return missing
}

// TooBusy returns what the machine's slowness has cost where that is too much: see maxStarved.
func (r *Report) TooBusy() []string {
	type where struct{ kernel, link string }
	n := map[where]int{}
	var order []where
	for _, row := range r.Rows() {
		w := where{row.Kernel, row.Link}
		if _, ok := n[w]; !ok {
			order = append(order, w)
		}
		n[w] += row.Starved
	}
	var out []string
	for _, w := range order {
		if n[w] > maxStarved {
			out = append(out, fmt.Sprintf("%s, %s link: %d tries were lost because the guest stood still, and %d may be", w.kernel, w.link, n[w], maxStarved))
		}
	}
	return out
}
