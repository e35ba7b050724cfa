package paths

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/goroce/goroce/bench/report"
)

// dataFile holds the results, from which the page is made.
const dataFile = "paths.json"

// Report is what one or more runs have given, the newest first.
type Report struct {
	Runs    []Ran
	Results []Result
}

// Ran is a run of the benchmark.
type Ran struct {
	Command    string
	Machine    report.Machine
	Warm, Time time.Duration
}

// Add adds a result of the newest run.
func (r *Report) Add(x Result) { r.Results = append(r.Results, x) }

// Write writes the data and the page. keep says that cells of an earlier run stay, if this one has
// none of them.
func (r *Report) Write(dir string, keep bool) error {
	if keep {
		old, err := read(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err == nil {
			r.keep(old)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, dataFile), append(b, '\n'), 0o666)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "README.md"), r.page(), 0o666)
	}
	return err
}

// keep adds the cells of earlier runs that this one has not.
func (r *Report) keep(old *Report) {
	own := slices.Clone(r.Results)
	runs := len(r.Runs)
	moved := map[int]int{} // runs of old
	for _, x := range old.Results {
		if slices.ContainsFunc(own, func(y Result) bool { return y.Row == x.Row && y.Contender == x.Contender }) {
			continue
		}
		if _, ok := moved[x.Run]; !ok {
			moved[x.Run] = runs + len(moved)
			r.Runs = append(r.Runs, old.Runs[x.Run])
		}
		x.Run = moved[x.Run]
		r.Results = append(r.Results, x)
	}
}

func read(dir string) (*Report, error) {
	b, err := os.ReadFile(filepath.Join(dir, dataFile))
	if err != nil {
		return nil, err
	}
	r := &Report{}
	return r, json.Unmarshal(b, r)
}

// Redraw makes the page of the data again.
func Redraw(dir string) error {
	r, err := read(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "README.md"), r.page(), 0o666)
}
