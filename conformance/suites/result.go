package suites

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/goroce/goroce/internal/report"
)

// Outcome of a test.
type Outcome = report.Outcome

// The outcomes. Skip is what the suite itself says, or one that it has not run.
const (
	Pass = report.Pass
	Fail = report.Fail
	Skip = report.Skip
)

// Result is what became of one test on one site.
type Result struct {
	Suite, On, Test string
	Outcome         Outcome
	Detail          string // one line: the suite's reason for a skip, or what a failure has said
}

// fields is the line of a result in a file, where tabs separate.
const fields = 5

// detailLimit is how much of a detail is kept, in bytes.
const detailLimit = 160

// colour is what programs colour their output with.
var colour = regexp.MustCompile("\x1b\\[[0-9;]*m")

// oneLine makes a detail of what a test has printed.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(colour.ReplaceAllString(strings.ToValidUTF8(s, "?"), "")), " ")
	if len(s) > detailLimit {
		s = strings.ToValidUTF8(s[:detailLimit], "") + "…"
	}
	return s
}

// sortResults sorts by suite and test, and then by site.
func sortResults(all []Result) {
	slices.SortStableFunc(all, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Suite, b.Suite), cmp.Compare(a.Test, b.Test), cmp.Compare(a.On, b.On))
	})
}

// WriteResults writes a line for each result.
func WriteResults(w io.Writer, all []Result) error {
	all = slices.Clone(all)
	sortResults(all)
	b := bufio.NewWriter(w)
	for _, r := range all {
		fmt.Fprintf(b, "%s\t%s\t%s\t%s\t%s\n", r.Suite, r.On, r.Outcome, r.Test, r.Detail)
	}
	return b.Flush()
}

// ReadResults reads what WriteResults has written.
func ReadResults(r io.Reader) (all []Result, err error) {
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		f := strings.Split(sc.Text(), "\t")
		if len(f) != fields || !slices.Contains([]Outcome{Pass, Fail, Skip}, Outcome(f[2])) {
			return nil, fmt.Errorf("suites: line %d of the results: %q", n, sc.Text())
		}
		all = append(all, Result{f[0], f[1], f[3], Outcome(f[2]), f[4]})
	}
	return all, sc.Err()
}

// Merge puts new results in the place of old ones of the same tests, and drops old ones of the
// suites in whole, which are suites that have been run from end to end on a site: suite and site.
func Merge(old, new []Result, whole map[[2]string]bool) []Result {
	type key struct{ suite, on, test string }
	have := map[key]bool{}
	for _, r := range new {
		have[key{r.Suite, r.On, r.Test}] = true
	}
	all := slices.Clone(new)
	for _, r := range old {
		if !have[key{r.Suite, r.On, r.Test}] && !whole[[2]string{r.Suite, r.On}] {
			all = append(all, r)
		}
	}
	sortResults(all)
	return all
}

// Summary says how many results have which outcome.
func Summary(all []Result) string {
	var c report.Tally
	for _, r := range all {
		c.Add(r.Outcome)
	}
	return c.String()
}
