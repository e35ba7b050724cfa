package matrix

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/internal/report"
)

// Result of a check.
type Result = report.Outcome

// The results. A skip says in Detail what was missing. A row is inconclusive if each attempt failed
// for a reason that says nothing about either side: the guest stood still, of which a run may have
// some (see [Report.TooBusy]), or packets of UC or UD got lost.
const (
	Pass                = report.Pass
	Fail                = report.Fail
	Skip                = report.Skip
	Inconclusive Result = "inconclusive"
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
	// Deviates is what the peer is known to do otherwise than the specification says, in a row that
	// passes all the same.
	Deviates string `json:"deviates,omitempty"`
	// Title is what the row checks, in a sentence, where its name does not tell.
	Title string `json:"title,omitempty"`
	// Script is the name of the file of a drill that is a user's own.
	Script string `json:"script,omitempty"`
	// Expected is what should have come, and Came what did, of a row that can tell. Known says who
	// is known to do that.
	Expected string `json:"expected,omitempty"`
	Came     string `json:"came,omitempty"`
	Known    string `json:"known,omitempty"`
	// Ladder are the packets that led to a difference, as text.
	Ladder string `json:"ladder,omitempty"`
	// Feature is what of RoCE the row is about, where its name does not tell.
	Feature string `json:"feature,omitempty"`
	// Packets is the file with the packets of a row that failed.
	Packets string `json:"packets,omitempty"`
	// Measured are numbers that the row has found, each with its unit at the end of its name.
	Measured map[string]float64 `json:"measured,omitempty"`
	// Samples are the single measurements, by names that end with the unit.
	Samples map[string][]float64 `json:"samples,omitempty"`

	wrong bool    // it failed in a way that no standstill of the guest explains
	part  *Report // of a report, that it was added to
}

// Report collects rows; it may be used from several goroutines.
type Report struct {
	of      *Report // it is a part of: see Part
	ctx     context.Context
	mu      sync.Mutex
	rows    []Row
	stopped bool
	starved map[lane][]time.Duration
	again   time.Duration // that attempts have taken which were made again
	// OnRow, if not nil, sees each row as it comes, one at a time.
	OnRow func(Row)
}

// Part returns a report whose rows are r's, and can be taken back. It takes no more once ctx has
// ended: what an interrupted row has seen is no result.
func (r *Report) Part(ctx context.Context) *Report { return &Report{of: r, ctx: ctx} }

// Withdraw takes the rows of a part back.
func (r *Report) Withdraw() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.rows = slices.DeleteFunc(r.of.rows, func(row Row) bool { return row.part == r })
}

// Add appends a row.
func (r *Report) Add(row Row) {
	if r.of != nil {
		if row.part = r; r.ctx.Err() == nil {
			r.of.Add(row)
		}
		return
	}
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
func (r *Report) WriteJSON(path string) error { return report.WriteJSON(path, r.Rows()) }

// Numbers are those that the row has found, in words.
func (row Row) Numbers() string { return measured(row.Measured).String() }

// Label names a row in one line.
func (row Row) Label() string {
	s := fmt.Sprintf("%s %s %s %s as %s", row.Kernel, row.Link, row.Group, row.Op, row.Role)
	if row.MTU != 0 {
		s += fmt.Sprintf(" mtu %d", row.MTU)
	}
	if row.MTU != 0 || row.Size != 0 || row.Family != "" {
		s += fmt.Sprintf(" size %d %s", row.Size, row.Family)
	}
	if row.Fault != "" {
		s += ", " + row.Fault
	}
	return s
}

// MissingRows returns the rows of a kernel that are not there on a link, by their labels with that
// link. Links that run everything are to have the same rows, and so are those that run the subset.
// Each row of the subset has one like it among all, which may repeat something more often: the
// numbers in its name count for nothing.
func (r *Report) MissingRows(kernel string, full, subset []string) []string {
	rows := slices.DeleteFunc(r.Rows(), func(row Row) bool { return row.Kernel != kernel })
	out := append(missing(rows, full, full, Row.Label), missing(rows, subset, subset, Row.Label)...)
	return append(out, missing(rows, subset, full, func(row Row) string {
		row.Op = numbers.ReplaceAllString(row.Op, "N")
		return row.Label()
	})...)
}

// numbers are those in the names of rows.
var numbers = regexp.MustCompile(`\d+`)

// missing returns the rows that are there on one of some links and not on one of others, by their
// labels with the latter. Rows of one name are the same.
func missing(all []Row, from, on []string, name func(Row) string) (labels []string) {
	var rows []Row // one of each name
	there := map[string]bool{}
	seen := map[string]bool{}
	for _, row := range all {
		link := row.Link
		row.Link = ""
		there[link+" "+name(row)] = true
		if slices.Contains(from, link) && !seen[name(row)] {
			seen[name(row)] = true
			rows = append(rows, row)
		}
	}
	for _, row := range rows {
		for _, link := range on {
			if !there[link+" "+name(row)] {
				lacking := row
				lacking.Link = link
				labels = append(labels, lacking.Label())
			}
		}
	}
	return labels
}

// lane is a kernel and a link.
type lane struct{ kernel, link string }

// Again reports whether an attempt that took so long may be made again. All of a run together may
// have taken [againTime]: a run on a machine that stands still must end, too.
func (r *Report) Again(took time.Duration) bool {
	if r.of != nil {
		return r.of.Again(took)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again += took
	return r.again <= againTime
}

// Starvation notes that a try was lost at a time because the guest stood still.
func (r *Report) Starvation(kernel, link string, at time.Duration) {
	if r.of != nil {
		r.of.Starvation(kernel, link, at)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.starved == nil {
		r.starved = map[lane][]time.Duration{}
	}
	w := lane{kernel, link}
	r.starved[w] = append(r.starved[w], at)
}

// TooBusy returns what the machine's slowness has cost where that is too much: see maxStarved,
// maxInconclusive. Tries lost at about the same time were lost to one stall of the guest.
func (r *Report) TooBusy() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for w, times := range r.starved {
		slices.Sort(times)
		stalls, first := 0, time.Duration(0)
		for _, at := range times {
			if stalls == 0 || at-first > oneStall {
				stalls, first = stalls+1, at
			}
		}
		if stalls > maxStarved {
			out = append(out,
				fmt.Sprintf("%s, %s link: the guest stood still %d times, which cost %d tries; %d times are too many",
					w.kernel, w.link, stalls, len(times), maxStarved+1))
		}
	}
	slices.Sort(out)
	inconclusive := 0
	for _, row := range r.rows {
		if row.Result == Inconclusive && row.Starved > 0 {
			inconclusive++
		}
	}
	if inconclusive > maxInconclusive {
		out = append(out,
			fmt.Sprintf("%d rows are inconclusive, since the guest stood still in each attempt; %d are too many",
				inconclusive, maxInconclusive+1))
	}
	return out
}
