package suites

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/goroce/goroce/internal/report"
)

// runsText says when and how what is in results.txt was run: a section of Markdown for each suite,
// written by hand.
//
//go:embed runs.md
var runsText string

// groupOf is the group of a test: what is before the first colon, or before the last dot.
func groupOf(test string) string {
	if g, _, ok := strings.Cut(test, ": "); ok {
		return g
	}
	name, _, _ := strings.Cut(test, " ")
	if i := strings.Index(name, "."); i > 0 {
		return name[:i]
	}
	return name
}

// WriteTable writes the page of all results.
func WriteTable(w io.Writer, all []Result, known []Known) error {
	var b strings.Builder
	fmt.Fprint(&b, "# Test suites of others\n\n")
	fmt.Fprint(&b, "Made by `make suites`; don't edit. Suites of other projects, from unmodified sources, on this project's libraries\n")
	fmt.Fprint(&b, "([verbs.md](../docs/verbs.md)), on the kernel's rxe in a guest, and where there is no RDMA device at all (\"nothing\"): what passes\n")
	fmt.Fprint(&b, "there says nothing about a device. [suites/results.txt](suites/results.txt) lists each test, [suites/known.txt](suites/known.txt) the causes of failures.\n\n")
	t := report.Begin(&b, "suite", "version", "on", "passed", "failed", "skipped")
	for _, s := range All() {
		of := byName(all, s.Name)
		for _, on := range sites(of) {
			c := count(of, func(r Result) bool { return r.On == on })
			t.Row(fmt.Sprintf("[%s](#%s)", s.Name, s.Name), s.Version, on, c.Passed, c.Failed, c.Skipped)
		}
	}
	fmt.Fprint(&b, "\npyverbs and valkey are the newest that Debian's archive had on 2026-11-28; the others are those of Debian 12 and 13.\n")
	for _, s := range All() {
		if of := byName(all, s.Name); len(of) > 0 {
			writeSuite(&b, s, of, known)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// runsOf is the text on a suite's runs.
func runsOf(suite string) string {
	for part := range strings.SplitSeq("\n"+runsText, "\n## ") {
		if name, text, _ := strings.Cut(part, "\n"); name == suite {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

func byName(all []Result, suite string) (of []Result) {
	for _, r := range all {
		if r.Suite == suite {
			of = append(of, r)
		}
	}
	return of
}

// sites are those that results are of, in order.
func sites(of []Result) (names []string) {
	for _, on := range AllSites {
		if slices.ContainsFunc(of, func(r Result) bool { return r.On == on }) {
			names = append(names, on)
		}
	}
	return names
}

func count(of []Result, which func(Result) bool) (c report.Tally) {
	for _, r := range of {
		if which(r) {
			c.Add(r.Outcome)
		}
	}
	return c
}

func writeSuite(b *strings.Builder, s Suite, of []Result, known []Known) {
	ons := sites(of)
	source := fmt.Sprintf("Debian's package %s %s", s.Package, s.Version)
	if s.Archive != "" {
		source = fmt.Sprintf("%s %s, %s", s.Package, s.Version, s.Archive)
	}
	fmt.Fprintf(b, "\n## %s\n\n%s. Source: %s.\n\n", s.Name, s.About, source)
	if runs := runsOf(s.Name); runs != "" {
		fmt.Fprintf(b, "%s\n\n", runs)
	}
	fmt.Fprint(b, "Passed, failed and skipped:\n\n")
	t := report.Begin(b, append([]string{"tests"}, ons...)...)
	groups := map[string]bool{}
	for _, r := range of {
		groups[groupOf(r.Test)] = true
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		t.Row(report.Cells(ons, func(on string) string {
			c := count(of, func(r Result) bool { return r.On == on && groupOf(r.Test) == g })
			return fmt.Sprintf("%d, %d, %d", c.Passed, c.Failed, c.Skipped)
		}, "`"+g+"`")...)
	}
	writeBehind(b, of)
	writeFailures(b, of, known)
	writeSkips(b, of)
}

// writeBehind lists what passes on rxe and not on goroce.
func writeBehind(b *strings.Builder, of []Result) {
	var onRXE []string
	for _, on := range sites(of) {
		if Guests[on] != "" {
			onRXE = append(onRXE, on)
		}
	}
	if len(onRXE) == 0 {
		return
	}
	behind := behindRXE(of)
	fmt.Fprintf(b, "\nPassed on %s and not on goroce: %d.\n", strings.Join(onRXE, " or "), len(behind))
	for _, r := range behind {
		fmt.Fprintf(b, "- `%s`: %s: %s\n", r.Test, r.Outcome, r.Detail)
	}
}

// behindRXE are the results on goroce of the tests that pass on rxe and not there.
func behindRXE(of []Result) (behind []Result) {
	passed := map[string]bool{}
	for _, r := range of {
		if Guests[r.On] != "" && r.Outcome == Pass {
			passed[r.Test] = true
		}
	}
	for _, r := range of {
		if r.On == OnGoroce && r.Outcome != Pass && passed[r.Test] {
			behind = append(behind, r)
		}
	}
	return behind
}

// writeFailures lists those on a device, by cause. Without one all that fails is as it must be.
func writeFailures(b *strings.Builder, of []Result, known []Known) {
	causes := map[string][]string{}
	for _, r := range of {
		if r.Outcome == Fail && r.On != OnNothing {
			c := cmp.Or(cause(known, r), "UNKNOWN: "+r.Detail)
			causes[c] = append(causes[c], fmt.Sprintf("`%s` (%s)", r.Test, r.On))
		}
	}
	writeList(b, "Failures on a device, by cause", causes)
}

// writeSkips lists why tests are skipped here.
func writeSkips(b *strings.Builder, of []Result) {
	reasons := map[string][]string{}
	n := map[string]int{}
	for _, r := range of {
		if r.Outcome == Skip && r.On == OnGoroce {
			why := cmp.Or(r.Detail, "no reason given")
			if n[why]++; n[why] == 1 {
				reasons[why] = []string{fmt.Sprintf("`%s`", r.Test)}
			}
		}
	}
	for why, n := range n {
		if n > 1 {
			reasons[why][0] += fmt.Sprintf(" and %d more", n-1)
		}
	}
	writeList(b, "Skipped on goroce, by the suite's reason", reasons)
}

func writeList(b *strings.Builder, title string, lines map[string][]string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n\n", title)
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(b, "- %s: %s\n", key, strings.Join(lines[key], ", "))
	}
}
