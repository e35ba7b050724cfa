// Package report holds the results of a run of the benchmarks and writes them as JSON,
// Markdown and charts. What it writes is a function of the results alone: docs/bench can
// be made again from its JSON file.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Report is one run.
type Report struct {
	Command string
	Machine Machine
	Network string
	Rounds  int
	RoundMs int
	// Items are what was asked for; empty in older runs.
	Items []string `json:",omitempty"`
	Notes []string // what was left out, and why
	// Links say how each link was attached.
	Links []string `json:",omitempty"`
	Cases []Case
	// LabCommand is what measured in the guests, which is another run, Lab what the guests are,
	// and LabSeconds how long it took; Seconds is how long this one took.
	LabCommand string  `json:",omitempty"`
	Lab        string  `json:",omitempty"`
	LabSeconds float64 `json:",omitempty"`
	// LabPart is set if only some of the tests in guests were asked for.
	LabPart bool    `json:",omitempty"`
	Seconds float64 `json:",omitempty"`
}

// Machine says where and when.
type Machine struct {
	Time, Kernel, CPU, Go string
	Cores                 int
	// LoadStart and LoadEnd are load averages over 1 minute; they include the run itself.
	LoadStart, LoadEnd float64
	// Foreign is which share of the machine's CPU time other processes took during the run; 0 to 1.
	Foreign float64
	Commit  string
	User    string `json:",omitempty"`
}

// Case is one thing measured, with all figures of the same interleaved rounds.
type Case struct {
	Item string // "single", "latency", "sockets", "scale", "shards", "engine", "lab"
	Name string // unique in its item
	Link string
	Op   string
	Size int // bytes of a message
	MTU  int
	QPs  int
	Mode string
	// Place is where the two processes ran, if that is part of the case.
	Place string `json:",omitempty"`
	// Region is the memory that is walked through, in bytes.
	Region  int
	Figures []Figure
	// Text is what there is to say about it in words.
	Text string `json:",omitempty"`
	// Run says which run it is from, if a report is put together from several.
	Run string `json:",omitempty"`
}

// Places of the two processes.
const (
	OwnCPU = "a CPU each" // each had one, and no other
	AnyCPU = "any CPU"    // as the scheduler liked
	OneCPU = "one CPU"    // both on the same
)

// Figure is one quantity over all rounds.
type Figure struct {
	Name, Unit string
	Rounds     []float64
	Median     float64
	Min, Max   float64
}

// Add adds the value of a round.
func (c *Case) Add(name, unit string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	i := slices.IndexFunc(c.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		i = len(c.Figures)
		c.Figures = append(c.Figures, Figure{Name: name, Unit: unit})
	}
	f := &c.Figures[i]
	f.Rounds = append(f.Rounds, v)
	f.Median, f.Min, f.Max = median(f.Rounds), slices.Min(f.Rounds), slices.Max(f.Rounds)
}

// Get returns a figure, nil if it was not measured.
func (c *Case) Get(name string) *Figure {
	for i := range c.Figures {
		if c.Figures[i].Name == name {
			return &c.Figures[i]
		}
	}
	return nil
}

// Value is the median of a figure; NaN if it was not measured.
func (c *Case) Value(name string) float64 {
	if f := c.Get(name); f != nil {
		return f.Median
	}
	return math.NaN()
}

// median returns the median, of an even number the mean of the two in the middle.
func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Find returns the first case that f accepts; nil if there is none.
func (r *Report) Find(f func(*Case) bool) *Case {
	for i := range r.Cases {
		if f(&r.Cases[i]) {
			return &r.Cases[i]
		}
	}
	return nil
}

// Of returns the cases of an item.
func (r *Report) Of(item string) []*Case {
	var cs []*Case
	for i := range r.Cases {
		if r.Cases[i].Item == item {
			cs = append(cs, &r.Cases[i])
		}
	}
	return cs
}

// fileName is that of the results themselves.
const fileName = "bench.json"

// whyName is the file in the same folder that is written by hand, and becomes the section on
// what stops the aims that were missed.
const whyName = "what-stops-it.md"

// Names of figures of the engine: ratios to its own baselines.
const (
	XWithoutICRC = "x without ICRC"
	XSmallest    = "x smallest"
	XOneEngine   = "x 1 engine"
)

// CyclesPerPacket is a figure of bulk cases, where the kernel counts cycles.
const CyclesPerPacket = "cycles/packet"

// links are those that cases are of, in the order of the report.
func (r *Report) links() []string {
	var links []string
	for _, l := range []string{"udp", "packet", "xdp"} {
		if r.Find(func(c *Case) bool { return c.Link == l && c.Item != itemLab }) != nil {
			links = append(links, l)
		}
	}
	return links
}

// itemLab is the item of what was measured in guests.
const itemLab = "lab"

// ran reports whether an item was asked for.
func (r *Report) ran(item string) bool {
	if len(r.Items) > 0 {
		return slices.Contains(r.Items, item)
	}
	return len(r.Of(item)) > 0
}

// Missed returns the aims that were measured and missed.
func (r *Report) Missed() []string {
	var missed []string
	for _, a := range Aims() {
		if a.Verdict(a.Value(r)) == VerdictMissed {
			missed = append(missed, a.What)
		}
	}
	return missed
}

// Write writes results, report and charts to a folder. Charts of a link that was not measured
// are removed.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	why, err := os.ReadFile(filepath.Join(dir, whyName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	files := r.Charts()
	old, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if files[filepath.Base(name)] == nil {
			err = errors.Join(err, os.Remove(name))
		}
	}
	files[fileName] = append(b, '\n')
	files["README.md"] = r.Markdown(string(why))
	for name, b := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	return err
}

// Read reads the results in a folder, or a file.
func Read(path string) (*Report, error) {
	if filepath.Ext(path) != filepath.Ext(fileName) {
		path = filepath.Join(path, fileName)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &r, nil
}

// Bytes prints a size.
func Bytes(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
