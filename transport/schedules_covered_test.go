package transport_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// covered is the table of what was covered: a row for each program, in a file with text before and
// behind it.
type covered struct {
	file           string // "" for none
	before, behind string
	rows           []string
}

const coveredHead = "| program | faults | states | ends | actions | longest | time | |\n|---|---|---|---|---|---|---|---|\n"

// partly is the note of a search that -states has ended.
const partly = "not all"

// readCovered reads the table. The rows that are there stay, and their programs are not played
// again, unless -states had ended them sooner than it would now.
func readCovered(t *testing.T, file string) *covered {
	c := &covered{file: file}
	b, _ := os.ReadFile(file) // or there is none yet
	before, rest, _ := strings.Cut(string(b), coveredHead)
	c.before = before
	for strings.HasPrefix(rest, "|") {
		row, behind, _ := strings.Cut(rest, "\n")
		c.rows, rest = append(c.rows, row), behind
	}
	c.behind = rest
	return c
}

// start is the beginning of the row of a program.
func (c *covered) start(p *program) string {
	i := strings.LastIndexByte(p.name, ' ')
	return fmt.Sprintf("| `%s` | %s |", strings.ReplaceAll(p.name[:i], "|", "¦"), p.name[i+1:])
}

// at returns which row a program has, or -1.
func (c *covered) at(p *program) int {
	return slices.IndexFunc(c.rows, func(row string) bool { return strings.HasPrefix(row, c.start(p)) })
}

// has reports whether a program was covered to its end, or as far as -states allows now.
func (c *covered) has(p *program) bool {
	i := c.at(p)
	if i < 0 {
		return false
	}
	states, _ := strconv.Atoi(strings.TrimSpace(strings.Split(c.rows[i], "|")[3]))
	return !strings.HasSuffix(c.rows[i], " "+partly+" |") || *statesFlag > 0 && *statesFlag <= states
}

// add writes what a search has covered, at once: a long run may be ended at any time.
func (c *covered) add(t *testing.T, p *program, d coverage) {
	if c.file == "" {
		return
	}
	note := "all"
	if d.cut > 0 {
		note = partly
	}
	if i := c.at(p); i >= 0 {
		c.rows = slices.Delete(c.rows, i, i+1)
	}
	c.rows = append(c.rows, fmt.Sprintf("%s %d | %d | %d | %d | %v | %s |", c.start(p), d.states, d.schedules,
		d.actions, d.depth, d.took.Round(time.Millisecond), note))
	text := c.before + coveredHead + strings.Join(c.rows, "\n") + "\n" + c.behind
	if err := os.WriteFile(c.file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCovered checks that the programs of the table are those of now.
func TestCovered(t *testing.T) {
	there := map[string]bool{}
	for _, p := range schedulePrograms() {
		there[(&covered{}).start(p)] = true
	}
	rows := readCovered(t, "SCHEDULES.md").rows
	if len(rows) == 0 {
		t.Error("the table has no rows")
	}
	for _, row := range rows {
		if cells := strings.SplitAfterN(row, "|", 4); !there[strings.Join(cells[:3], "")] {
			t.Errorf("no such program, make the table anew: %s", row)
		}
	}
}
