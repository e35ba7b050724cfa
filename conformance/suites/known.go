package suites

import (
	_ "embed"
	"fmt"
	"strings"
)

// knownText is the list of failures whose cause is known.
//
//go:embed known.txt
var knownText string

// Known is a failure whose cause is known: tests of a suite on a site. In Test a * stands for
// anything.
type Known struct {
	Suite, On, Test string
	// Sometimes: the tests may pass, too.
	Sometimes bool
	Cause     string
	line      int
}

func (k Known) String() string {
	return fmt.Sprintf("line %d of known.txt (%s, %s, %s)", k.line, k.Suite, k.On, k.Test)
}

// sometimes in front of a test says that it may also pass.
const sometimes = "sometimes "

// AllKnown returns the list.
func AllKnown() ([]Known, error) { return parseKnown(knownText) }

// parseKnown reads lines of suite, site, test and cause, with " | " between them. Those that begin
// with # are comments.
func parseKnown(text string) (all []Known, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.SplitN(line, " | ", 4)
		if len(f) != 4 || strings.TrimSpace(f[3]) == "" {
			return nil, fmt.Errorf("suites: line %d of known.txt: not SUITE | SITE | TEST | CAUSE", n)
		}
		k := Known{Suite: f[0], On: f[1], Test: f[2], Cause: f[3], line: n}
		k.Test, k.Sometimes = strings.CutPrefix(k.Test, sometimes)
		if !k.Sometimes {
			k.Test = f[2]
		}
		all = append(all, k)
	}
	return all, nil
}

// is reports whether a line is about a test.
func (k Known) is(r Result) bool {
	return k.Suite == r.Suite && k.On == r.On && glob(k.Test, r.Test)
}

// glob reports whether a pattern, in which * stands for anything, is all of a string.
func glob(pattern, s string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !strings.HasPrefix(s, head) {
		return false
	}
	if s = s[len(head):]; !star {
		return s == ""
	}
	for i := range len(s) + 1 {
		if glob(rest, s[i:]) {
			return true
		}
	}
	return false
}

// Judge compares results with the list: it returns the failures on a device that are not in it, and
// the lines that are stale, since every test that they name has passed, or, of the suites in whole,
// that no test has such a name.
func Judge(known []Known, results []Result, whole map[[2]string]bool) (unknown []Result, stale []Known) {
	for _, r := range results {
		if r.Outcome == Fail && r.On != OnNothing && cause(known, r) == "" {
			unknown = append(unknown, r)
		}
	}
	for _, k := range known {
		var seen, failed bool
		for _, r := range results {
			if k.is(r) {
				seen = true
				failed = failed || r.Outcome == Fail
			}
		}
		gone := !seen && whole[[2]string{k.Suite, k.On}]
		if gone || seen && !failed && !k.Sometimes {
			stale = append(stale, k)
		}
	}
	return unknown, stale
}

// cause is that of a failure; "" if it is not in the list.
func cause(known []Known, r Result) string {
	for _, k := range known {
		if k.is(r) {
			return k.Cause
		}
	}
	return ""
}
