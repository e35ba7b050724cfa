//go:build linux

package slots

import (
	"flag"
	"fmt"
	"io"
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

// TestEverySchedule plays small programs of two or three processes that take slots, use them, give
// them back and die, under every schedule: at each system call of a process any other one may run,
// the process may be killed, a packet may arrive or time pass. A state that was met before is not
// entered again. What is bounded is how often processes are killed, packets arrive and time passes.
//
// The rules: no slot has two devices; none is used again before it has rested, or with something in
// its sockets that was for the device before; none is lost for ever; a service has one device, and
// no other gets its requests; who serves hears requests. There are no sockets and no filters: see
// schedules_ground_test.go.
func TestEverySchedule(t *testing.T) {
	seeds.Slow(t)
	var rows []string
	var sum schedules.Coverage
	played := 0
	for _, p := range slotPrograms() {
		if !p.always && !*everyFlag {
			continue
		}
		if played++; seeds.Race && played%4 != 3 {
			continue // they take turns: the detector finds no more in all of them
		}
		t.Run(p.name+" "+p.budget.String(), func(t *testing.T) {
			c, v := schedules.Explore[slotStep](
				func(log io.Writer) *slotWorld { return newSlotWorld(p, log) }, *statesFlag)
			if v != nil {
				t.Fatal(v)
			}
			t.Log(c)
			rows = append(rows, fmt.Sprintf("| %s | %s | %s", p.name, p.budget, c.Row()))
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

const tableHead = `# Every schedule of processes at one address

Written by ` + "`go test ./roce/internal/slots -run 'TestEverySchedule$' -every -v -timeout 0 -table SCHEDULES.md`" + `. What is played, and what is checked:
` + "`schedules_test.go`, `schedules_world_test.go`" + `.

A program is what each process does, in order. What else may happen is how often processes are killed, packets and requests arrive, and 2 seconds
pass. Depth is the number of actions of the longest schedule that was walked. Schedules are all ways from the beginning to an end; those that
meet in a state are counted, and walked once from there.

| processes | kills, packets, requests, 2 s | depth | states | schedules | time | |
|---|---|---|---|---|---|---|
`

// slotProgram is what processes do, and what else may happen.
type slotProgram struct {
	name      string
	actors    [][]string
	addresses int  // 0: one
	kept      bool // another process has the addresses, and no slot
	backwards bool // the second process has the addresses in another order
	budget    slotBudget
	always    bool // in every run of the tests
}

func (b slotBudget) String() string {
	return fmt.Sprintf("%d, %d, %d, %d", b.kills, b.packets, b.requests, b.rests)
}

func slotPrograms() []*slotProgram {
	var all []*slotProgram
	add := func(text string, change func(*slotProgram), bs ...slotBudget) {
		for i, b := range bs {
			p := &slotProgram{name: text, budget: b, always: i == 0 && len(bs) > 1}
			for _, s := range strings.Split(text, ";") {
				p.actors = append(p.actors, strings.Fields(s))
			}
			if change != nil {
				change(p)
			}
			all = append(all, p)
		}
	}
	kept := func(p *slotProgram) { p.kept = true; p.name += ", others" }
	two := func(p *slotProgram) { p.addresses, p.kept = 2, true; p.name += ", two addresses" }
	crossed := func(p *slotProgram) { two(p); p.backwards = true; p.name += ", in either order" }
	b := func(kills, packets, requests, rests uint8) slotBudget {
		return slotBudget{kills, packets, requests, rests}
	}
	// Slots.
	add("open close; open close", nil, b(1, 0, 0, 1))
	add("open close; open close", kept, b(0, 0, 0, 1), b(1, 0, 0, 1))
	add("open hear read close; open hear read close", nil, b(1, 1, 0, 1))
	add("open hear read close; open hear read close", kept, b(0, 1, 0, 0), b(1, 1, 0, 1))
	add("open hear; open hear read; open hear read", kept, b(0, 0, 0, 0))
	add("open close; open close; open close", kept, b(0, 0, 0, 0))
	add("open close open close; open close", kept, b(0, 0, 0, 1))
	add("open close; open close", two, b(0, 0, 0, 0))
	add("open close; open", two, b(1, 0, 0, 0))
	add("open close; open close", crossed, b(0, 0, 0, 0))
	add("open close; open", crossed, b(1, 0, 0, 0))
	// Requests.
	add("open serve; open serve close", kept, b(0, 0, 0, 0), b(1, 0, 0, 0))
	add("open serve close; open serve close", kept, b(0, 0, 0, 0))
	add("open serve; open serve close; open serve close", kept, b(0, 0, 0, 0))
	add("open announce withdraw; open announce", kept, b(1, 0, 0, 0), b(2, 0, 0, 1))
	add("open announce read close; open serve requests", kept, b(0, 0, 1, 0), b(1, 0, 1, 0))
	add("open announce read close; open serve requests; open hear read", kept, b(0, 0, 1, 0))
	return all
}
