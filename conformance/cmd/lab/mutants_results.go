package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/internal/report"
)

// entry is what became of a bug, a line of the file of results.
type entry struct {
	Package string
	Commit  string
	// Code and Tests tell versions of the package apart, and of the tests that ought to find the
	// bug. What was found in this code stays found with other tests.
	Code, Tests string
	Bug         string
	Line        int
	Result      string
	// Reach is how many tests come by the code.
	Reach   int
	Seconds float64
}

// ledger is the file of results.
type ledger struct {
	*os.File
	all   map[string]*entry
	order []*entry
}

func openLedger(name string) (*ledger, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	l := &ledger{File: f, all: map[string]*entry{}}
	for s := bufio.NewScanner(f); s.Scan(); {
		e := new(entry)
		if json.Unmarshal(s.Bytes(), e) == nil { // a run that was cut off may leave half a line
			l.keep(e)
		}
	}
	return l, nil
}

// find returns what is known of a bug in this code, with these tests if it survived.
func (l *ledger) find(code, tests, id string) *entry {
	e := l.all[code+id]
	if e == nil || e.Result == survived.String() && e.Tests != tests {
		return nil
	}
	return e
}

func (l *ledger) keep(e *entry) {
	l.all[e.Code+e.Bug] = e
	l.order = append(l.order, e)
}

func (l *ledger) add(e *entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.keep(e)
	_, err = l.Write(append(b, '\n'))
	return err
}

// fingerprints are of the package's code and of the tests of some packages.
func fingerprints(p *pkg, dirs map[string]string) (code, tests string, err error) {
	h, g := sha256.New(), sha256.New()
	for _, f := range p.GoFiles {
		b, err := os.ReadFile(filepath.Join(p.Dir, f))
		if err != nil {
			return "", "", err
		}
		fmt.Fprintln(h, f, len(b))
		h.Write(b)
	}
	for _, path := range slices.Sorted(maps.Keys(dirs)) {
		names, err := filepath.Glob(filepath.Join(dirs[path], "*_test.go"))
		if err != nil {
			return "", "", err
		}
		for _, f := range names {
			b, err := os.ReadFile(f)
			if err != nil {
				return "", "", err
			}
			fmt.Fprintln(g, path, filepath.Base(f), len(b))
			g.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), hex.EncodeToString(g.Sum(nil)[:8]), nil
}

// commit is what is checked out, with a + if there is more.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--exclude=*", "--dirty=+").Output()
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(out))
}

// count is what became of the bugs of a package.
type count struct {
	planted, found, same, explained int
	open                            []string
	takes                           time.Duration
	commit                          string // of the last
}

func (c *count) count(e *entry, explained map[string]string) {
	c.planted++
	c.takes += time.Duration(e.Seconds * float64(time.Second))
	c.commit = e.Commit
	switch {
	case e.Result != survived.String():
		c.found++
	case strings.HasPrefix(explained[e.Bug], isSame):
		c.same++
	case explained[e.Bug] != "":
		c.explained++
	default:
		c.open = append(c.open, fmt.Sprintf("%s (%d tests come by)", e.Bug, e.Reach))
	}
}

func (c *count) add(d *count) {
	c.planted += d.planted
	c.found += d.found
	c.same += d.same
	c.explained += d.explained
	c.open = append(c.open, d.open...)
	c.takes += d.takes
}

// String has both shares that are found: of all, and of those that are not the same program written
// in another way, which is what others call a mutation score.
func (c *count) String() string {
	share := func(of int) float64 { return 100 * float64(c.found) / float64(max(of, 1)) }
	return fmt.Sprintf("%d planted, %d found, %d the same, %d explained, %d open: %.1f %% of all are found, %.1f %% of those that are not the same",
		c.planted, c.found, c.same, c.explained, len(c.open), share(c.planted), share(c.planted-c.same))
}

// counts returns what is known of each package, in the code that was tried last.
func (l *ledger) counts(explained map[string]string) map[string]*count {
	code := map[string]string{}
	for _, e := range l.order {
		code[e.Package] = e.Code
	}
	of := map[string]*count{}
	for _, e := range l.order {
		if e.Code != code[e.Package] || l.all[e.Code+e.Bug] != e {
			continue
		}
		if of[e.Package] == nil {
			of[e.Package] = new(count)
		}
		of[e.Package].count(e, explained)
	}
	return of
}

// table is what is known of the packages, for people.
func (l *ledger) table(o *mutantOptions, names []string, explained map[string]string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out,
		"# Bugs that were planted\n\nMade by `go run ./conformance/cmd/lab mutants -n %d -seed %d -report FILE`.\n",
		o.each, o.seed)
	out.WriteString("The reasons of those that are explained are in [mutants.txt](mutants.txt). The seconds are those of the tests, without what was compiled.\n\n")
	t := report.Begin(&out, "package", "planted", "found", "the same", "explained", "open", "seconds", "at")
	var sum count
	of := l.counts(explained)
	for _, n := range names {
		c := of[n]
		if c == nil {
			t.Row(n, "not yet")
			continue
		}
		t.Row(n, c.planted, c.found, c.same, c.explained, len(c.open), fmt.Sprintf("%.0f", c.takes.Seconds()), c.commit)
		sum.add(c)
	}
	t.Row("all", sum.planted, sum.found, sum.same, sum.explained, len(sum.open),
		fmt.Sprintf("%.0f", sum.takes.Seconds()))
	fmt.Fprintf(&out, "\n%v.\n", &sum)
	if len(sum.open) != 0 {
		out.WriteString("\nOpen:\n\n")
		for _, s := range sum.open {
			fmt.Fprintf(&out, "- `%s`\n", s)
		}
	}
	return out.Bytes()
}

// explainedFile has the bugs that can make no difference. Lines that do not begin with a space name
// bugs, by their ids; those below that do say why. With isSame a reason begins that says that
// nothing the program answers, sends or keeps can differ.
const (
	explainedFile = "conformance/mutants.txt"
	isSame        = "The same."
)

func readExplained(name string) (map[string]string, error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	var ids []string
	last := false // was a reason
	for i, line := range strings.Split(string(b), "\n") {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(line, "//"):
		case line[0] == ' ':
			if len(ids) == 0 {
				return nil, fmt.Errorf("%s:%d: a reason without a bug", name, i+1)
			}
			for _, id := range ids {
				all[id] = strings.TrimSpace(all[id] + " " + text)
			}
			last = true
		default:
			if last {
				ids, last = nil, false
			}
			if _, twice := all[text]; twice || slices.Contains(ids, text) {
				return nil, fmt.Errorf("%s:%d: a second time", name, i+1)
			}
			ids = append(ids, text)
		}
	}
	if !last && len(ids) != 0 {
		return nil, fmt.Errorf("%s: %s has no reason", name, ids[0])
	}
	return all, nil
}
