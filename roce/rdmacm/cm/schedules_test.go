package cm

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/schedules"
	"github.com/goroce/goroce/internal/seeds"
)

var (
	everyFlag  = flag.Bool("every", false, "TestEverySchedule: all programs, for many minutes")
	tableFlag  = flag.String("table", "", "TestEverySchedule: file to write the table of what was covered to")
	statesFlag = flag.Int("states", 0,
		"TestEverySchedule: most states of a program, whose search is then not complete; 0 for no bound")
)

// TestEverySchedule plays small programs of two communication managers under every schedule. The
// agent has no clock, goroutine or source of randomness, so two of them, a wire and what their
// applications have done are all the state there is. In each state every action is tried that can
// happen next: deliver, lose, duplicate or overtake a datagram; let a timer run, also while
// datagrams are on their way or the application has something to do; and whatever the applications
// may do. A state that was met before is not entered again.
//
// What is bounded is how many datagrams are lost, duplicated and overtaken, and how many timers run
// early, by the program's budget. Within it the search is complete.
//
// The rules are in schedules_rules_test.go. A failure prints its schedule.
func TestEverySchedule(t *testing.T) {
	seeds.Slow(t)
	var rows []string
	var sum schedules.Coverage
	played := 0
	for _, p := range programs() {
		if !p.always && !*everyFlag {
			continue
		}
		if played++; seeds.Race && played%4 != 3 {
			continue // they take turns: the detector finds no more in all of them
		}
		t.Run(p.name, func(t *testing.T) {
			c, v := schedules.Explore[step](func(log logger) *twoEnds { return newTwoEnds(p, log) }, *statesFlag)
			if v != nil {
				t.Fatal(v)
			}
			t.Log(c)
			rows = append(rows,
				fmt.Sprintf("| %s | %s | %s", strings.TrimSuffix(p.name, " "+p.faults.String()), p.faults, c.Row()))
			sum.Add(c)
		})
		if *tableFlag == "" || t.Failed() {
			continue
		}
		text := tableHead + strings.Join(rows, "") + fmt.Sprintf("| **%d programs** | | %s", sum.Programs, sum.Row())
		if err := os.WriteFile(*tableFlag, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d programs, %v", sum.Programs, sum)
}

const tableHead = `# Every schedule of small programs

Written by ` + "`go test ./roce/rdmacm/cm -run 'TestEverySchedule$' -every -v -timeout 0 -table SCHEDULES.md`" + `. What is played, and what is checked:
` + "`schedules_test.go`, `schedules_rules_test.go`" + `.

Faults are how many datagrams may be lost, duplicated and overtaken, how many timers may run while a datagram is on its way, and how many while an
application has something to do. Depth is the number of actions of the longest schedule that was walked. Schedules are all ways from the beginning to an end;
those that meet in a state are counted, and walked once from there. "Not all" is a search that ` + "`-states`" + ` ended.

| program | faults | depth | states | schedules | time | |
|---|---|---|---|---|---|---|
`
